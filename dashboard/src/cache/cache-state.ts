/** What the page keeps of the messages `cache`: the newest maps, and what counters grew by. */
import type { CacheMessage, LevelName } from "../messages.ts";

/** Blocks that changed lately in a level's map fade over this time. */
export const GLOW_MS = 900;

export interface DecodedMap {
  readonly level: LevelName;
  readonly blocks: number;
  readonly blocksPerCell: number;
  readonly isEstimate: boolean;
  /** [cells, 3] shares held and cached, 0 to 255; priority, 0 to 100. */
  readonly cells: Uint8Array;
  /** By cell: when it changed last, in ms of this page; 0: not since the page was opened. */
  readonly changedMs: Float64Array;
}

export class CacheState {
  maps: readonly DecodedMap[] = [];
  report: CacheMessage["report"] = null;
  /** Counters when the page was opened. */
  first: CacheMessage["report"] = null;

  take(message: CacheMessage): void {
    const nowMs = performance.now();
    this.maps = message.levels.map((map) => {
      const cells = fromBase64(map.cells);
      const before = this.maps.find(({ level }) => level === map.level);
      return {
        level: map.level,
        blocks: map.blocks,
        blocksPerCell: map.blocksPerCell,
        isEstimate: map.readPerCell < map.blocksPerCell,
        cells,
        changedMs: changes(before, cells, nowMs),
      };
    });
    this.report = message.report;
    this.first ??= message.report;
  }

  /** Whether a cell still glows. */
  get glows(): boolean {
    const limit = performance.now() - GLOW_MS;
    return this.maps.some(({ changedMs }) => changedMs.some((ms) => ms > limit));
  }
}

/** Only what became held or free: that an idle block ages tells nothing. */
function changes(before: DecodedMap | undefined, cells: Uint8Array, nowMs: number): Float64Array {
  if (before?.cells.length !== cells.length) return new Float64Array(cells.length / 3);
  const changed = before.changedMs;
  for (let cell = 0; cell < changed.length; cell++) {
    const isSame =
      before.cells[cell * 3] === cells[cell * 3] &&
      before.cells[cell * 3 + 1] === cells[cell * 3 + 1];
    if (!isSame) changed[cell] = nowMs;
  }
  return changed;
}

function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const values = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) values[at] = binary.charCodeAt(at);
  return values;
}
