/** Sets of tokens as bits: token t is bit t % 32 of word t / 32. */

/** A mask of `words` words with the bits of `tokens` set. */
export function maskOf(tokens: Iterable<number>, words: number): Uint32Array {
  const mask = new Uint32Array(words);
  for (const token of tokens) allow(mask, token);
  return mask;
}

export function allow(mask: Uint32Array, token: number): void {
  const word = token >>> 5;
  mask[word] = ((mask[word] ?? 0) | (1 << (token & 31))) >>> 0;
}

export function allows(mask: Uint32Array, token: number): boolean {
  return (((mask[token >>> 5] ?? 0) >>> (token & 31)) & 1) === 1;
}

/** Intersects `mask` with `other`. */
export function intersect(mask: Uint32Array, other: Uint32Array): void {
  for (let word = 0; word < mask.length; word++) {
    mask[word] = ((mask[word] ?? 0) & (other[word] ?? 0)) >>> 0;
  }
}

/** Whether a token that is not in `except` is allowed. */
export function allowsOther(mask: Uint32Array, except: readonly number[]): boolean {
  const rest = except.length === 0 ? mask : mask.slice();
  for (const token of except) {
    const word = token >>> 5;
    rest[word] = (rest[word] ?? 0) & ~(1 << (token & 31));
  }
  return rest.some((word) => word !== 0);
}
