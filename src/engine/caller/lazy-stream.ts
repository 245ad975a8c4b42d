/**
 * A stream that is opened when its first item is asked for. Hands on the source's own promises: a
 * generator around it would make several more for every item. One reader, which asks for one item
 * at a time.
 */
export class LazyStream<T> implements AsyncIterableIterator<T> {
  #open: (() => Promise<AsyncIterableIterator<T>>) | null;
  #source: AsyncIterableIterator<T> | null = null;
  #left = false;

  constructor(open: () => Promise<AsyncIterableIterator<T>>) {
    this.#open = open;
  }

  next(): Promise<IteratorResult<T>> {
    return this.#source === null ? this.#first() : this.#source.next();
  }

  /** Leaves the source, or never opens it. */
  async return(): Promise<IteratorResult<T>> {
    this.#left = true;
    await this.#source?.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #first(): Promise<IteratorResult<T>> {
    const open = this.#open;
    this.#open = null;
    if (open === null || this.#left) return { done: true, value: undefined };
    const source = await open();
    this.#source = source;
    // The reader left meanwhile: nobody else would tell the source.
    if (this.#left) await source.return?.();
    return source.next();
  }
}
