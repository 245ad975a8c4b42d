/** A queue between two parts of a pipeline that work at the same time. */

/** Holds a bounded number of items: adding to a full one waits, taking from an empty one, too. */
export class Channel<Item> implements AsyncIterable<Item> {
  readonly #capacity: number;
  readonly #items: Item[] = [];
  readonly #adders: (() => void)[] = [];
  readonly #takers: (() => void)[] = [];
  #isClosed = false;
  #error: { readonly reason: unknown } | null = null;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Rejects after `fail`. */
  async add(item: Item): Promise<void> {
    while (this.#error === null && this.#items.length >= this.#capacity) {
      await new Promise<void>((resolve) => this.#adders.push(resolve));
    }
    if (this.#error !== null) throw this.#error.reason;
    this.#items.push(item);
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
        this.#adders.shift()?.();
        yield item as Item; // there is one
      } else if (this.#isClosed) return;
      else await new Promise<void>((resolve) => this.#takers.push(resolve));
    }
  }

  #wakeAll(): void {
    for (const wake of [...this.#adders.splice(0), ...this.#takers.splice(0)]) wake();
  }
}
