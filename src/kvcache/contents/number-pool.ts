import { IntList } from "#base";

/**
 * Numbers from 0 up for records that come and go. The one given back last is taken first, since
 * its record is still warm; only when there is none, the next that was never used.
 */
export class NumberPool {
  readonly #returned: IntList = new IntList();
  #fresh = 0;

  /** Numbers in use. */
  get count(): number {
    return this.#fresh - this.#returned.length;
  }

  /** A number that nobody else has. */
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
