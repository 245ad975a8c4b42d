import { assert } from "./assert.ts";

const FIRST_CAPACITY = 16;
/** Of all lists in which there is nothing yet: many stay so. */
const NOTHING = new Int32Array(0);

/** Reads a typed array at an index that must exist; a missing one is a bug. */
export function intAt(ints: Int32Array, index: number): number {
  const value = ints[index];
  assert(value !== undefined, "Cannot read an integer outside its array");
  return value;
}

/** A growing list of 32-bit integers without an object per element. Grows by doubling. */
export class IntList {
  #items: Int32Array;
  #length: number;

  /** Copies `values`. */
  constructor(values: ArrayLike<number> = []) {
    this.#length = values.length;
    this.#items = NOTHING;
    if (values.length === 0) return;
    this.#items = new Int32Array(Math.max(values.length, FIRST_CAPACITY));
    this.#items.set(values);
  }

  get length(): number {
    return this.#length;
  }

  /** The value at `index`, which must exist. */
  get(index: number): number {
    assert(index < this.#length, "Cannot read past the end of a list");
    return intAt(this.#items, index);
  }

  push(value: number): void {
    if (this.#length === this.#items.length) {
      const grown = new Int32Array(Math.max(this.#length * 2, FIRST_CAPACITY));
      grown.set(this.#items);
      this.#items = grown;
    }
    this.#items[this.#length++] = value;
  }

  /** Replaces the value at `index`, which must exist. */
  set(index: number, value: number): void {
    assert(index >= 0 && index < this.#length, "Cannot write past the end of a list");
    this.#items[index] = value;
  }

  /** Removes and returns the last value, which must exist. */
  pop(): number {
    const value = this.get(this.#length - 1);
    this.#length--;
    return value;
  }

  clear(): void {
    this.#length = 0;
  }

  /** The values from `start` up to `end`, without a copy; valid until the list changes. */
  view(start = 0, end: number = this.#length): Int32Array {
    assert(start <= end && end <= this.#length, "Cannot view past the end of a list");
    return this.#items.subarray(start, end);
  }
}
