import { assert } from "./assert.ts";
import { IntList, intAt } from "./int-list.ts";

/**
 * A growing list of 32-bit integers that begins with an array that several lists share: each
 * sequence of a prompt stores only its own tokens.
 */
export class TokenList {
  readonly #shared: Int32Array;
  readonly #own = new IntList();

  /** Begins as `shared`, which is not copied and must not change from now on. */
  constructor(shared: Int32Array) {
    this.#shared = shared;
  }

  get length(): number {
    return this.#shared.length + this.#own.length;
  }

  /** The value at `index`, which must exist. */
  get(index: number): number {
    const { length } = this.#shared;
    return index < length ? intAt(this.#shared, index) : this.#own.get(index - length);
  }

  push(value: number): void {
    this.#own.push(value);
  }

  /** Removes and returns the last value, which must not be a shared one. */
  pop(): number {
    return this.#own.pop();
  }

  /**
   * The values from `start` up to `end`; valid until the list changes. Without a copy, unless some
   * are shared and some are not.
   */
  view(start = 0, end: number = this.length): Int32Array {
    const { length } = this.#shared;
    if (start >= length) return this.#own.view(start - length, end - length);
    assert(start <= end && end <= this.length, "Cannot view past the end of a list");
    if (end <= length) return this.#shared.subarray(start, end);
    const values = new Int32Array(end - start);
    values.set(this.#shared.subarray(start));
    values.set(this.#own.view(0, end - length), length - start);
    return values;
  }
}
