/** A queue between two parts of a pipeline that work at the same time. */

/**
 * Holds items of a bounded weight together, by default a number of them, and one of any weight:
 * adding to a full one waits, taking from an empty one, too.
 */
export class Channel<Item> implements AsyncIterable<Item> {
  readonly #capacity: number;
  readonly #weigh: (item: Item) => number;
  #weight = 0;
  readonly #items: Item[] = [];
  readonly #adders: (() => void)[] = [];
  readonly #takers: (() => void)[] = [];
  #isClosed = false;
  #error: { readonly reason: unknown } | null = null;

  constructor(capacity: number, weigh: (item: Item) => number = () => 1) {
    this.#capacity = capacity;
    this.#weigh = weigh;
  }

  /** Rejects after `fail`. */
  async add(item: Item): Promise<void> {
    const weight = this.#weigh(item);
    while (this.#error === null && !this.#hasRoomFor(weight)) {
      await new Promise<void>((resolve) => this.#adders.push(resolve));
    }
    if (this.#error !== null) throw this.#error.reason;
    this.#items.push(item);
    this.#weight += weight;
    this.#takers.shift()?.();
  }

  /** No more will be added; what is there can still be taken. */
  close(): void {
    this.#isClosed = true;
    this.#wakeAll();
  }

  /** Both sides end with the reason, at once. The first reason counts. */
  fail(reason: unknown): void {
    this.#error ??= { reason };
    this.#items.length = 0;
    this.#wakeAll();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    for (;;) {
      if (this.#error !== null) throw this.#error.reason;
      const [item] = this.#items;
      if (this.#items.length > 0) {
        this.#items.shift();
        this.#weight -= this.#weigh(item as Item); // there is one
        for (const wake of this.#adders.splice(0)) wake();
        yield item as Item;
      } else if (this.#isClosed) return;
      else await new Promise<void>((resolve) => this.#takers.push(resolve));
    }
  }

  #hasRoomFor(weight: number): boolean {
    return this.#items.length === 0 || this.#weight + weight <= this.#capacity;
  }

  #wakeAll(): void {
    for (const wake of [...this.#adders.splice(0), ...this.#takers.splice(0)]) wake();
  }
}
