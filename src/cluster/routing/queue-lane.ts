import { type CostedEntry, FairQueue } from "./fair-queue.ts";

/** Entries that wait for the same workers: strict priorities, and fair between keys within one. */
export class QueueLane<T extends CostedEntry & { readonly priority: number }> {
  readonly #quantum: number;
  readonly #tiers = new Map<number, FairQueue<T>>();
  /** Priorities of the tiers, the smallest first: clients choose them, there may be thousands. */
  readonly #order: number[] = [];

  /** `quantum`: what a key may send in its turn. */
  constructor(quantum: number) {
    this.#quantum = quantum;
  }

  get isEmpty(): boolean {
    return this.#order.length === 0;
  }

  /** Of the entry that is next; Infinity: there is none. */
  get firstPriority(): number {
    return this.#order[0] ?? Number.POSITIVE_INFINITY;
  }

  add(entry: T): void {
    const { priority } = entry;
    const known = this.#tiers.get(priority);
    if (known !== undefined) {
      known.add(entry);
      return;
    }
    const tier = new FairQueue<T>(this.#quantum);
    tier.add(entry);
    this.#tiers.set(priority, tier);
    this.#order.splice(this.#placeOf(priority), 0, priority);
  }

  /** False: it is not here. */
  remove(entry: T): boolean {
    const tier = this.#tiers.get(entry.priority);
    if (tier === undefined || !tier.remove(entry)) return false;
    this.#dropEmpty(entry.priority, tier);
    return true;
  }

  /** Any of the smallest priority; null: there is none. */
  first(): T | null {
    return this.#firstTier()?.first() ?? null;
  }

  /** Takes the next entry; null: there is none. */
  take(): T | null {
    const entry = this.#firstTier()?.take() ?? null;
    if (entry === null) return null;
    const tier = this.#tiers.get(entry.priority);
    if (tier !== undefined) this.#dropEmpty(entry.priority, tier);
    return entry;
  }

  #firstTier(): FairQueue<T> | undefined {
    return this.#tiers.get(this.firstPriority);
  }

  #dropEmpty(priority: number, tier: FairQueue<T>): void {
    if (!tier.isEmpty) return;
    this.#tiers.delete(priority);
    this.#order.splice(this.#placeOf(priority), 1);
  }

  /** The first place whose priority is not smaller. */
  #placeOf(priority: number): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#order[middle] ?? 0) < priority) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
