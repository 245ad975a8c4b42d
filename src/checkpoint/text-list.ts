const FIRST_CAPACITY = 4096;

/**
 * Strings as one block of UTF-8. A vocabulary is 100,000s of short strings, which a load of weights
 * alone never reads: they cost their bytes, not an object each.
 */
export class TextList {
  #bytes = new Uint8Array(FIRST_CAPACITY);
  /** End offset of each string. */
  readonly #ends: Uint32Array;
  #length = 0;
  #used = 0;

  /** Allocates for `capacity` strings. */
  constructor(capacity: number) {
    this.#ends = new Uint32Array(capacity);
  }

  /** Appends a copy of one string's bytes. */
  push(text: Uint8Array): void {
    if (this.#used + text.length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(2 * this.#bytes.length, this.#used + text.length));
      grown.set(this.#bytes.subarray(0, this.#used));
      this.#bytes = grown;
    }
    this.#bytes.set(text, this.#used);
    this.#used += text.length;
    this.#ends[this.#length++] = this.#used;
  }

  /** The strings; malformed parts become U+FFFD, as in other readers. */
  decode(): string[] {
    // TextDecoder takes 5 times as long for short strings.
    const all = Buffer.from(this.#bytes.buffer, 0, this.#used);
    let start = 0;
    return Array.from(this.#ends.subarray(0, this.#length), (end) => {
      const text = all.toString("utf8", start, end);
      start = end;
      return text;
    });
  }
}
