const HALF = 2 ** 32;
const WORDS_AT_FIRST = 1024;

/**
 * A table of 64-bit words for the native library, filled again and again. Numbers are whole ones
 * below 2^53, as addresses are: bigints cost more than all else that is done for a small piece.
 */
export class WordTable {
  /** Little-endian, as all machines are that the library is built for. */
  #halves = new Uint32Array(2 * WORDS_AT_FIRST);
  #words = 0;

  /** Words that were added. */
  get length(): number {
    return this.#words;
  }

  /** The words, and what an earlier use left behind them. */
  get halves(): Uint32Array {
    return this.#halves;
  }

  add(value: number): void {
    const high = value < HALF ? 0 : Math.floor(value / HALF);
    this.addHalves(high, value - high * HALF);
  }

  addHalves(high: number, low: number): void {
    const at = 2 * this.#words++;
    if (at === this.#halves.length) this.#grow();
    this.#halves[at] = low;
    this.#halves[at + 1] = high;
  }

  /** Says what was not known when the word was added. */
  set(word: number, value: number): void {
    this.#halves[2 * word] = value;
  }

  clear(): void {
    this.#words = 0;
  }

  #grow(): void {
    const grown = new Uint32Array(2 * this.#halves.length);
    grown.set(this.#halves);
    this.#halves = grown;
  }
}
