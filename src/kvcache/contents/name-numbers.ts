import { assert } from "#base";
import { NumberPool } from "./number-pool.ts";

/**
 * Small numbers for strings, so that records of integers can refer to them. A name has a number
 * while it has users; it is forgotten with its last user.
 */
export class NameNumbers {
  readonly #numbers = new Map<string, number>();
  readonly #pool: NumberPool = new NumberPool();
  // By number.
  readonly #names: (string | null)[] = [];
  readonly #users: number[] = [];

  /** Names that have a number. */
  get count(): number {
    return this.#numbers.size;
  }

  /** The number of a name; null while it has no user. */
  find(name: string): number | null {
    return this.#numbers.get(name) ?? null;
  }

  /** The name that a number stands for, which must be in use. */
  nameOf(number: number): string {
    const name = this.#names[number];
    assert(name !== undefined && name !== null, "Cannot name a number that is not in use");
    return name;
  }

  /** Adds a user of a name, known or new. Returns its number. */
  retain(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) {
      this.#users[known] = (this.#users[known] ?? 0) + 1;
      return known;
    }
    const number = this.#pool.take();
    this.#numbers.set(name, number);
    this.#names[number] = name;
    this.#users[number] = 1;
    return number;
  }

  /** Removes a user; with the last one the number is free for other names. */
  release(number: number): void {
    const name = this.nameOf(number);
    const users = (this.#users[number] ?? 0) - 1;
    this.#users[number] = users;
    if (users > 0) return;
    this.#numbers.delete(name);
    this.#names[number] = null;
    this.#pool.give(number);
  }

  /** Forgets all names. */
  clear(): void {
    this.#numbers.clear();
    this.#pool.clear();
    this.#names.length = 0;
    this.#users.length = 0;
  }

  /**
   * The numbers in use, in the order in which their names were added. Nothing may change meanwhile.
   */
  numbers(): Iterable<number> {
    return this.#numbers.values();
  }
}
