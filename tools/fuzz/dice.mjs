/** Draws that depend on a seed and a mutant's number alone: one mutant can be made again. */
export class Dice {
  #state;

  constructor(seed, mutant) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(mutant + 1, 0x85ebca6b)) | 0;
  }

  /** A whole number from 0 up to `limit`. */
  below(limit) {
    // Mulberry32 (T. Ettinger): one multiplication chain per draw.
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  pick(items) {
    return items[this.below(items.length)];
  }
}
