/**
 * A queue: one side pushes items, the other iterates over them in order. One reader, which requests
 * one item at a time. Unbounded: the pushing side limits itself by `onTake`.
 */
export class Channel<T> implements AsyncIterableIterator<T> {
  readonly #items: T[] = [];
  readonly #onReturn: () => void;
  readonly #onTake: (item: T) => void;
  #ended = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void) | null = null;

  /**
   * `onReturn`: called when the reader leaves before the end; `onTake`: with each item it takes.
   */
  constructor(onReturn: () => void, onTake: (item: T) => void = () => {}) {
    this.#onReturn = onReturn;
    this.#onTake = onTake;
  }

  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#notify();
  }

  end(): void {
    this.#ended = true;
    this.#notify();
  }

  /** Items pushed before are still delivered, then the reader gets `error`. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#failure = { error };
    this.end();
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) {
        this.#onTake(item);
        return { done: false, value: item };
      }
      if (this.#failure !== null) {
        const { error } = this.#failure;
        this.#failure = null;
        throw error;
      }
      if (this.#ended) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    if (!this.#ended) {
      this.end();
      this.#onReturn();
    }
    this.#items.length = 0;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
