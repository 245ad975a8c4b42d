/** What every device asks of the matrices of a file before it packs them. */
import { assert, EngineError } from "#base";
import { bytesOf, elementCount, formatShape } from "#tensor";
import type { WeightSource } from "./device.ts";

export interface MatrixExtents {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns of the matrix that a source describes. */
export function extentsOf(source: WeightSource, transposed: boolean): MatrixExtents {
  const [first = 0, second = 0] = source.shape;
  assert(source.shape.length === 2, `Cannot pack ${source.name}: a matrix wanted`);
  return transposed ? { rows: second, columns: first } : { rows: first, columns: second };
}

/** Of matrices stacked by rows, whose columns must agree. */
export function stackedExtents(
  sources: readonly WeightSource[],
  transposed: boolean,
): MatrixExtents {
  const extents = sources.map((source) => extentsOf(source, transposed));
  const columns = extents[0]?.columns ?? 0;
  assert(
    extents.every((each) => each.columns === columns),
    () => `Cannot stack ${sources.map(({ name }) => name).join(", ")}: equal columns wanted`,
  );
  return { rows: extents.reduce((sum, each) => sum + each.rows, 0), columns };
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
