/** Which blocks of a level are free, held and cached: a map of cells of equally many blocks. */
import { type BlockId, blockId, type CacheLevel } from "#kvcache/contents";
import type { LevelBooks } from "#kvcache/levels";

/** Bytes of a cell: share of held blocks, share of cached ones, highest priority of both. */
export const CELL_BYTES = 3;

/** Blocks of a level that one map reads at most: some 2 ms. */
const READ_MAX = 2 ** 17;
const WHOLE = 255;

/** One level's blocks in the order of their ids. */
export interface LevelMap {
  readonly level: CacheLevel;
  readonly blocks: number;
  /** Of every cell; the last one may have fewer. */
  readonly blocksPerCell: number;
  /** How many of them were read; where that is not all, shares are estimates. */
  readonly readPerCell: number;
  /** [cells, 3] shares of held and cached blocks, 0 to 255, and highest priority, 0 to 100. */
  readonly cells: Uint8Array;
}

/** Maps a level with at most `cellsMax` cells. Costs a scan of at most 2 ** 17 blocks. */
export function levelMap(books: LevelBooks, cellsMax: number): LevelMap {
  const { blocks, level } = books;
  const blocksPerCell = Math.max(1, Math.ceil(blocks / cellsMax));
  const count = Math.ceil(blocks / blocksPerCell);
  const readPerCell = Math.min(blocksPerCell, Math.max(1, Math.floor(READ_MAX / count)));
  const cells = new Uint8Array(count * CELL_BYTES);
  for (let cell = 0; cell < count; cell++) {
    const start = cell * blocksPerCell;
    const size = Math.min(blocksPerCell, blocks - start);
    readCell(books, { start, size, read: Math.min(readPerCell, size) }, (at, value) => {
      cells[cell * CELL_BYTES + at] = value;
    });
  }
  return { level, blocks, blocksPerCell, readPerCell, cells };
}

/** A cell's range in its level, and how many of its blocks, evenly spread, are read. */
interface CellRange {
  readonly start: number;
  readonly size: number;
  readonly read: number;
}

function readCell(
  books: LevelBooks,
  { start, size, read }: CellRange,
  set: (at: number, value: number) => void,
): void {
  let held = 0;
  let cached = 0;
  let priority = 0;
  for (let turn = 0; turn < read; turn++) {
    const block = blockId(books.first + start + Math.floor((turn * size) / read));
    const isHeld = books.holders(block) > 0;
    if (!isHeld && !books.isPublished(block)) continue;
    if (isHeld) held++;
    else cached++;
    priority = Math.max(priority, priorityOf(books, block));
  }
  set(0, share(held, read));
  set(1, share(cached, read));
  set(2, priority);
}

function priorityOf(books: LevelBooks, block: BlockId): number {
  return Math.min(100, Math.max(0, Math.round(books.priorityOf(block))));
}

/** At least 1 where there is any: a single block in a large cell stays visible. */
function share(part: number, whole: number): number {
  return part === 0 ? 0 : Math.max(1, Math.round((part / whole) * WHOLE));
}
