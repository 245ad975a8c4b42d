const FIRST_CAPACITY = 4096;

/**
 * Strings as one piece of UTF-8. A vocabulary is 100,000s of short strings, and whoever loads
 * weights only never looks at one: so they take their bytes, not a string each.
 */
export class TextList {
  #bytes = new Uint8Array(FIRST_CAPACITY);
  /** Where each string ends. */
  readonly #ends: Uint32Array;
  #length = 0;
  #used = 0;

  /** Room for `capacity` strings. */
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

  /** The strings; malformed parts are U+FFFD, as other readers have it. */
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
