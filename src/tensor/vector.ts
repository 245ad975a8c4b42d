/**
 * Arithmetic on rows, which hides the indexing of typed arrays, so that definitions of ops work on
 * rows. Sums are carried in f64: a definition should not depend on the order of a sum.
 */

/** The element at `index`, which must exist. */
export function at(row: ArrayLike<number>, index: number): number {
  return row[index]!;
}

/**
 * Sum over i < `count` of a[aStart + i] * b[bStart + i]. Four sums, because each addition waits for
 * the one before it in the same sum.
 */
export function dotFrom(
  a: Float32Array,
  aStart: number,
  b: Float32Array,
  bStart: number,
  count: number,
): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  let i = 0;
  for (; i + 3 < count; i += 4) {
    s0 += a[aStart + i]! * b[bStart + i]!;
    s1 += a[aStart + i + 1]! * b[bStart + i + 1]!;
    s2 += a[aStart + i + 2]! * b[bStart + i + 2]!;
    s3 += a[aStart + i + 3]! * b[bStart + i + 3]!;
  }
  for (; i < count; i++) s0 += a[aStart + i]! * b[bStart + i]!;
  return s0 + s1 + (s2 + s3);
}

/** The same for 8-bit integers; exact while `count` is below 2^17. */
export function dotInt8From(
  a: Int8Array,
  aStart: number,
  b: Int8Array,
  bStart: number,
  count: number,
): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += a[aStart + i]! * b[bStart + i]!;
  return sum;
}

/** Sum of a[i] * b[i]. Lengths must match. */
export function dot(a: Float32Array, b: Float32Array): number {
  return dotFrom(a, 0, b, 0, a.length);
}

/** out += scale * x. Lengths must match. */
export function addScaled(out: Float32Array | Float64Array, x: Float32Array, scale: number): void {
  for (let i = 0; i < x.length; i++) out[i]! += scale * x[i]!;
}

/** out *= scale. */
export function scaleRow(out: Float32Array | Float64Array, scale: number): void {
  for (let i = 0; i < out.length; i++) out[i]! *= scale;
}

/** The largest element; -Infinity for an empty row. */
export function maxOf(row: ArrayLike<number>): number {
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < row.length; i++) if (row[i]! > max) max = row[i]!;
  return max;
}

/** The largest magnitude; 0 for an empty row. */
export function absMaxOf(row: ArrayLike<number>): number {
  let max = 0;
  for (let i = 0; i < row.length; i++) max = Math.max(max, Math.abs(row[i]!));
  return max;
}

/** The first index of the largest element; 0 where nothing is larger than -Infinity. */
export function argmax(row: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[best]!) best = i;
  return best;
}

/** exp(x - max) / sum, in f64. A row of nothing but -Infinity has no softmax: all NaN. */
export function softmax(row: ArrayLike<number>): Float64Array {
  const max = maxOf(row);
  const out = new Float64Array(row.length);
  let sum = 0;
  for (let i = 0; i < row.length; i++) {
    out[i] = Math.exp(row[i]! - max);
    sum += out[i]!;
  }
  scaleRow(out, 1 / sum);
  return out;
}

/** Or of `(word & mask) + carry` over all words, each modulo 2^32. */
export function carriedBits(words: Int32Array, mask: number, carry: number): number {
  let bits = 0;
  for (let i = 0; i < words.length; i++) bits |= ((words[i]! & mask) + carry) | 0;
  return bits;
}
