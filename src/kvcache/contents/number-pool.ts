import { IntList } from "#base";

/**
 * Reusable numbers of records, from 0 up. The number given back last is taken first, since its
 * record is still in the processor's caches; a new number is taken only when none was given back.
 */
export class NumberPool {
  readonly #returned: IntList = new IntList();
  #fresh = 0;

  /** Numbers in use. */
  get count(): number {
    return this.#fresh - this.#returned.length;
  }

  /** An unused number. */
  take(): number {
    return this.#returned.length > 0 ? this.#returned.pop() : this.#fresh++;
  }

  /** The number may be taken again. */
  give(number: number): void {
    this.#returned.push(number);
  }

  /** All numbers are unused. */
  clear(): void {
    this.#returned.clear();
    this.#fresh = 0;
  }
}
