import { assert } from "#base";
import type { Sequence } from "./sequence.ts";

/** Orders sequences: negative where `a` goes first. */
export type SequenceOrder = (a: Sequence, b: Sequence) => number;

/** Smaller priority first, then earlier arrival, then smaller id. */
export const byPriority: SequenceOrder = (a, b) =>
  a.priority - b.priority || a.arrivalMs - b.arrivalMs || a.id - b.id;

/**
 * Waiting sequences in order of admission: by arrival, with returning sequences in front, or
 * sorted. Adding and removing one costs the queue's length, which is bounded and small.
 */
export class WaitingQueue {
  readonly #order: SequenceOrder | null;
  #sequences: Sequence[] = [];

  /** `order` null: first come, first served. */
  constructor(order: SequenceOrder | null) {
    this.#order = order;
  }

  get length(): number {
    return this.#sequences.length;
  }

  add(sequence: Sequence): void {
    if (this.#order === null) this.#sequences.push(sequence);
    else this.#insert(sequence, this.#order);
  }

  /**
   * Puts a sequence back that held blocks, or was to: in front of all, or at its place in the
   * order.
   */
  addBack(sequence: Sequence): void {
    if (this.#order === null) this.#sequences.unshift(sequence);
    else this.#insert(sequence, this.#order);
  }

  /** Puts a sequence in the place of one that is here. */
  replace(sequence: Sequence, successor: Sequence): void {
    this.#sequences[this.#placeOf(sequence)] = successor;
  }

  /** Removes a sequence, which must be in the queue. */
  remove(sequence: Sequence): void {
    this.#sequences.splice(this.#placeOf(sequence), 1);
  }

  /** Removes all of a set, keeping the order of the others. */
  removeAll(leaving: ReadonlySet<Sequence>): void {
    this.#sequences = this.#sequences.filter((sequence) => !leaving.has(sequence));
  }

  [Symbol.iterator](): IterableIterator<Sequence> {
    return this.#sequences[Symbol.iterator]();
  }

  #placeOf(sequence: Sequence): number {
    const index = this.#sequences.indexOf(sequence);
    assert(index >= 0, "Cannot take a sequence out of a queue that does not have it");
    return index;
  }

  #insert(sequence: Sequence, order: SequenceOrder): void {
    let low = 0;
    let high = this.#sequences.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#sequences[middle];
      assert(other !== undefined, "A sorted queue has no gaps");
      if (order(other, sequence) <= 0) low = middle + 1;
      else high = middle;
    }
    this.#sequences.splice(low, 0, sequence);
  }
}
