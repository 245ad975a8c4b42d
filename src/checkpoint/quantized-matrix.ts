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

/** Unsigned elements of a word of 32 bits. */
export type Bits = 4 | 8;

/** Words along rows, [R, ceil(C / n)], of n elements, the first in the lowest bits: [R, C]. */
export function unpackColumns(words: Int32Array, size: Extents, bits: Bits): Uint8Array {
  const { rows, columns } = size;
  const perWord = 32 / bits;
  const rowWords = Math.ceil(columns / perWord);
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0, at = row * rowWords; column < columns; column += perWord, at++) {
      let packed = words[at] ?? 0;
      const end = row * columns + Math.min(column + perWord, columns);
      for (let to = row * columns + column; to < end; to++) {
        out[to] = packed & mask;
        packed >>>= bits;
      }
    }
  }
  return out;
}

/**
 * Words down columns, [ceil(R / n), C], of n elements, whose row k lies at bit `bits * order[k]`:
 * [R, C].
 */
export function unpackRows(
  words: Int32Array,
  size: Extents,
  bits: Bits,
  order: readonly number[] = inOrder(bits),
): Uint8Array {
  const { rows, columns } = size;
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const from = Math.floor(row / order.length) * columns;
    const to = row * columns;
    const shift = bits * (order[row % order.length] ?? 0);
    for (let column = 0; column < columns; column++) {
      out[to + column] = ((words[from + column] ?? 0) >>> shift) & mask;
    }
  }
  return out;
}

function inOrder(bits: Bits): readonly number[] {
  return Array.from({ length: 32 / bits }, (_, element) => element);
}

interface Extents {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns of a tile, so that its lines stay in the nearest cache. */
const TILE = 64;

/** [R, C] as [C, R], written to `out`. */
export function transpose<Elements extends Int32Array | Float32Array>(
  out: Elements,
  source: Elements,
  { rows, columns }: Extents,
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
