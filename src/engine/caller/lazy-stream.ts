/**
 * A stream that is opened when its first item is requested. Returns the source's own promises: a
 * generator around it would create several more for every item. One reader, which requests one item
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

  /** Ends the source, or prevents its opening. */
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
    // The reader left while the source was opened: `return` had no source to end.
    if (this.#left) await source.return?.();
    return source.next();
  }
}
