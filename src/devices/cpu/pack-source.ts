/** What packing takes from a source, checked. */
import { assert, EngineError } from "#base";
import { bytesOf, elementCount, formatShape } from "#tensor";
import type { WeightSource } from "../device.ts";
import type { CpuLibrary } from "./library.ts";
import type { CpuMemory } from "./memory.ts";

export interface PackContext {
  readonly library: CpuLibrary;
  readonly memory: CpuMemory;
  readonly pool: bigint;
}

/** Rows and columns of the matrix that a source describes. */
export function extentsOf(
  source: WeightSource,
  transposed: boolean,
): { rows: number; columns: number } {
  const [first = 0, second = 0] = source.shape;
  assert(source.shape.length === 2, `Cannot pack ${source.name}: a matrix wanted`);
  return transposed ? { rows: second, columns: first } : { rows: first, columns: second };
}

/**
 * The source's bytes; their number must match its shape, since a kernel would read past the end of
 * fewer.
 */
export function checkedBytes(source: WeightSource): Uint8Array {
  const bytes = source.bytes();
  const wanted = elementCount(source.shape) * bytesOf(source.dtype);
  if (bytes.byteLength < wanted) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      `Cannot read ${source.name}: ${wanted} bytes wanted for ${source.dtype} ` +
        `${formatShape(source.shape)}, the file has ${bytes.byteLength}`,
    );
  }
  return bytes;
}
