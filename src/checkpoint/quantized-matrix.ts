/**
 * Matrices of small integers with scales, as AWQ, GPTQ and compressed-tensors store them. Each of
 * them is brought to one form, which has one definition.
 *
 * R rows (outputs) · C columns (inputs) · G groups of columns, which share scales
 */

/** What a quantum means. Signed quanta have half their range added, and so have their zeros. */
export interface Scaling {
  /** [R, G] */
  readonly scales: Float32Array;
  /** [R, G] */
  readonly zeros: Uint8Array;
  /** [C], each below G. */
  readonly groups: Int32Array;
}

/** The one form. */
export interface QuantizedMatrix extends Scaling {
  /** [R, C] */
  readonly quanta: Uint8Array;
}

/** The definition, in f32: scale * (quantum - zero), [R, C]. */
export function dequantized(matrix: QuantizedMatrix): Float32Array<ArrayBuffer> {
  const { quanta, scales, zeros, groups } = matrix;
  const columns = groups.length;
  const rows = quanta.length / columns;
  const groupCount = scales.length / rows;
  const runs = runsOf(groups);
  const out = new Float32Array(quanta.length);
  for (let row = 0; row < rows; row++) {
    const start = row * columns;
    for (const { first, end, group } of runs) {
      const scale = scales[row * groupCount + group] ?? 0;
      const zero = zeros[row * groupCount + group] ?? 0;
      for (let at = start + first; at < start + end; at++) {
        out[at] = scale * ((quanta[at] ?? 0) - zero);
      }
    }
  }
  return out;
}

/** Columns from `first` up to `end` are of one group. */
export interface Run {
  readonly first: number;
  readonly end: number;
  readonly group: number;
}

/** The runs of columns that follow each other, in their order. */
export function runsOf(groups: Int32Array): readonly Run[] {
  const runs: Run[] = [];
  let first = 0;
  for (let end = 1; end <= groups.length; end++) {
    const group = groups[first] ?? 0;
    if (groups[end] === group) continue;
    runs.push({ first, end, group });
    first = end;
  }
  return runs;
}

/** How many elements each word of 32 bits holds, and where: element k at bit `bits * order[k]`. */
export interface Packing {
  readonly bits: 4 | 8;
  readonly order: readonly number[];
}

/** Elements of a word in their order, the first in the lowest bits. */
export function inOrder(bits: 4 | 8): Packing {
  return { bits, order: Array.from({ length: 32 / bits }, (_, element) => element) };
}

/** Words along rows: of [R, ceil(C / n)] words of n elements the [R, C] elements. */
export function unpackColumns(
  words: Int32Array,
  size: { readonly rows: number; readonly columns: number },
  { bits, order }: Packing,
): Uint8Array {
  const { rows, columns } = size;
  const rowWords = Math.ceil(columns / order.length);
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let word = 0; word < rowWords; word++) {
      const packed = words[row * rowWords + word] ?? 0;
      const first = word * order.length;
      const elements = Math.min(order.length, columns - first);
      for (let k = 0; k < elements; k++) {
        out[row * columns + first + k] = (packed >>> (bits * (order[k] ?? 0))) & mask;
      }
    }
  }
  return out;
}

/** Words down columns: of [ceil(R / n), C] words of n elements the [R, C] elements. */
export function unpackRows(
  words: Int32Array,
  size: { readonly rows: number; readonly columns: number },
  { bits, order }: Packing,
): Uint8Array {
  const { rows, columns } = size;
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const wordRow = Math.floor(row / order.length) * columns;
    const shift = bits * (order[row % order.length] ?? 0);
    for (let column = 0; column < columns; column++) {
      out[row * columns + column] = ((words[wordRow + column] ?? 0) >>> shift) & mask;
    }
  }
  return out;
}

/** Rows and columns of a tile, so that its lines stay in the nearest cache. */
const TILE = 64;

/** [R, C] as [C, R], written to `out`. */
export function transpose<Elements extends Uint8Array | Float32Array>(
  out: Elements,
  source: Elements,
  { rows, columns }: { readonly rows: number; readonly columns: number },
): Elements {
  for (let top = 0; top < rows; top += TILE) {
    const bottom = Math.min(top + TILE, rows);
    for (let left = 0; left < columns; left += TILE) {
      const right = Math.min(left + TILE, columns);
      for (let column = left; column < right; column++) {
        for (let row = top; row < bottom; row++) {
          out[column * rows + row] = source[row * columns + column] ?? 0;
        }
      }
    }
  }
  return out;
}
