import { assert, EngineError } from "#base";
import { BLOCK_TYPES, type BlockType, blocksBytes, formatShape } from "#tensor";
import type { WeightSource } from "../device.ts";
import { CpuMatrix, elementCode } from "./handles.ts";
import { checkedBytes, extentsOf, type PackContext } from "./pack-source.ts";
import { Params } from "./params.ts";

/** Most segments of a matrix (native/cpu/packed-matrix.h). */
const SEGMENTS_MAX = 7;

/** Consecutive sources whose rows have blocks of one type. */
interface Segment {
  readonly type: BlockType;
  readonly sources: WeightSource[];
  rows: number;
}

/**
 * Packs matrices stacked by rows into one of the q8 format: those that have blocks keep them, the
 * others become Q8_0. Throws CHECKPOINT_INVALID where a scale is infinite or NaN.
 */
export function packBlocks(
  { library, memory, pool }: PackContext,
  sources: readonly WeightSource[],
  { rows, columns, transposed }: { rows: number; columns: number; transposed: boolean },
): CpuMatrix {
  const segments = segmentsOf(sources, transposed);
  const names = sources.map((source) => source.name).join(", ");
  assert(segments.length <= SEGMENTS_MAX, `Cannot stack ${names}: at most ${SEGMENTS_MAX} types`);
  const plan = new Params(2 + 2 * segments.length).fill(
    columns,
    segments.length,
    ...segments.flatMap(({ type, rows: count }) => [typeCode(type), count]),
  );
  const bytes = library.packedBytes(plan);
  const address = memory.allocate(bytes, `${names} ${formatShape([rows, columns])}`);
  library.packedBegin(plan, address);

  const params = new Params(8);
  segments.forEach((segment, index) => {
    let firstRow = 0;
    for (const source of segment.sources) {
      const count = extentsOf(source, transposed).rows;
      const blocks = blocksOf(source, transposed);
      const element = blocks === null ? elementCode(source.dtype) : -1;
      const bad = library.packBlocks(
        params.fill(pool, address, columns, index, firstRow, count, element, transposed ? 1 : 0),
        blocks === null ? checkedBytes(source) : checkedBlocks(source, blocks, count, columns),
      );
      source.discard();
      if (bad > 0) throw notFinite(source, bad);
      firstRow += count;
    }
  });
  return new CpuMatrix("q8", rows, columns, bytes, address);
}

function segmentsOf(sources: readonly WeightSource[], transposed: boolean): readonly Segment[] {
  const segments: Segment[] = [];
  for (const source of sources) {
    const type = blocksOf(source, transposed)?.type ?? "Q8_0";
    const { rows } = extentsOf(source, transposed);
    const last = segments.at(-1);
    if (last?.type === type) {
      last.sources.push(source);
      last.rows += rows;
    } else {
      segments.push({ type, sources: [source], rows });
    }
  }
  return segments;
}

/** Blocks run along rows: a transposed matrix has none that could be used. */
function blocksOf(source: WeightSource, transposed: boolean) {
  return transposed ? null : (source.packed ?? null);
}

/** A kernel would read past the end of fewer blocks. */
function checkedBlocks(
  source: WeightSource,
  packed: NonNullable<WeightSource["packed"]>,
  rows: number,
  columns: number,
): Uint8Array {
  const blocks = packed.blocks();
  const wanted = blocksBytes(packed.type, rows, columns);
  if (wanted !== null && blocks.byteLength >= wanted) return blocks;
  throw new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${source.name}: whole blocks of ${packed.type} wanted for ` +
      `${formatShape([rows, columns])}, ${wanted ?? "an impossible number of"} bytes, ` +
      `the file has ${blocks.byteLength}; download the file again`,
    { param: source.name },
  );
}

function notFinite(source: WeightSource, blocks: number): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${source.name}: all scales must be finite, those of ${blocks} blocks are not; ` +
      "download the file again, or use another checkpoint of the model",
    { param: source.name },
  );
}

/** The same order as `BlockType` in native/cpu/block-types.h. */
function typeCode(type: BlockType): number {
  return BLOCK_TYPES.findIndex(({ name }) => name === type);
}
