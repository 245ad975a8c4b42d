/**
 * Numbers that the tables know workers by, apart from those that callers do: a worker that is reset
 * goes on under a new number at once, and what the old one held is given back piece by piece.
 */
import type { PrefixMatch, WorkerNumber } from "#cluster/protocol";
import { WORKERS_MAX } from "./member-sets.ts";

/** The number is no worker's any more. */
const NONE = -1;

export class WorkerSlots {
  /** Of the tables, by the callers' numbers, and the other way around. */
  readonly #slots = new Int16Array(WORKERS_MAX).fill(NONE);
  readonly #owners = new Int16Array(WORKERS_MAX).fill(NONE);
  /** Slots of workers that are gone, the first of them for longest. */
  readonly retired = new Set<number>();
  /** Slots that are not their owner's number, or have no owner. */
  #others = 0;

  /** -1: there is no such worker. */
  slotOf(worker: WorkerNumber): number {
    return this.#slots[worker] ?? NONE;
  }

  /** -1: it has none. */
  ownerOf(slot: number): number {
    return this.#owners[slot] ?? NONE;
  }

  take(worker: WorkerNumber, slot: number): void {
    this.#slots[worker] = slot;
    this.#owners[slot] = worker;
    if (slot !== worker) this.#others++;
  }

  /** Nothing is found of the worker from now on; its slot, -1: it had none. */
  retire(worker: WorkerNumber): number {
    const slot = this.slotOf(worker);
    if (slot < 0) return slot;
    this.#slots[worker] = NONE;
    this.#owners[slot] = NONE;
    this.retired.add(slot);
    if (slot === worker) this.#others++;
    return slot;
  }

  /** A retired slot is empty. */
  release(slot: number): void {
    if (this.retired.delete(slot)) this.#others--;
  }

  /** Matches of slots as those of their workers; without those of retired ones. */
  named(matches: readonly PrefixMatch[]): readonly PrefixMatch[] {
    if (this.#others === 0) return matches;
    const named: PrefixMatch[] = [];
    for (const { worker: slot, levels } of matches) {
      const worker = this.ownerOf(slot);
      if (worker !== NONE) named.push({ worker, levels });
    }
    return named;
  }
}
