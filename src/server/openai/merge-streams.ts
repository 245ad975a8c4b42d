/** An item, and the index of its stream. */
export interface Merged<Item> {
  readonly source: number;
  readonly item: Item;
}

/** The result of requesting one item from a stream. */
type Arrival<Item> =
  | { readonly source: number; readonly result: IteratorResult<Item> }
  | { readonly source: number; readonly error: unknown };

/**
 * Items of all streams in order of arrival, each stream's items in order; at most `atOnce` streams
 * are open at a time, opened in order. One item of each open stream is requested ahead, the next
 * one when that item is consumed: no stream fills memory, and no stream starves. The first failure,
 * or `return`, ends all streams.
 */
export function mergeStreams<Item>(
  streams: readonly AsyncIterable<Item>[],
  atOnce = Number.POSITIVE_INFINITY,
): AsyncIterableIterator<Merged<Item>> {
  const [only] = streams;
  if (only !== undefined && streams.length === 1) return asMerged(only);
  return new StreamMerge(streams, Math.max(1, atOnce));
}

/** One stream, the usual case: avoids further promises for every item. */
function asMerged<Item>(stream: AsyncIterable<Item>): AsyncIterableIterator<Merged<Item>> {
  const iterator = stream[Symbol.asyncIterator]();
  const wrap = (result: IteratorResult<Item>): IteratorResult<Merged<Item>, undefined> =>
    result.done === true
      ? { done: true, value: undefined }
      : { done: false, value: { source: 0, item: result.value } };
  return {
    next: () => iterator.next().then(wrap),
    return: async () => {
      await iterator.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Streams opened per turn of the event loop: a request may have a thousand. */
const OPENED_AT_ONCE = 32;

class StreamMerge<Item> implements AsyncIterableIterator<Merged<Item>> {
  readonly #streams: readonly AsyncIterable<Item>[];
  readonly #atOnce: number;
  /** Open streams, by index. */
  readonly #open = new Map<number, AsyncIterator<Item>>();
  /** Results in order of arrival; at most one of each open stream. */
  readonly #arrivals: Arrival<Item>[] = [];
  #opened = 0;
  #wake: (() => void) | null = null;
  #rests = false;

  constructor(streams: readonly AsyncIterable<Item>[], atOnce: number) {
    this.#streams = streams;
    this.#atOnce = atOnce;
  }

  async next(): Promise<IteratorResult<Merged<Item>, undefined>> {
    for (;;) {
      this.#openMore();
      const arrival = this.#arrivals.shift();
      if (arrival === undefined) {
        if (this.#open.size === 0 && !this.#rests) return { done: true, value: undefined };
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      const { source } = arrival;
      if ("error" in arrival) {
        this.#open.delete(source);
        this.#leave();
        throw arrival.error;
      }
      if (arrival.result.done === true) {
        this.#open.delete(source);
        continue;
      }
      this.#ask(source);
      return { done: false, value: { source, item: arrival.result.value } };
    }
  }

  async return(): Promise<IteratorResult<Merged<Item>, undefined>> {
    this.#leave();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #openMore(): void {
    if (this.#rests) return;
    for (let opened = 0; this.#open.size < this.#atOnce; opened++) {
      if (this.#opened === this.#streams.length) return;
      if (opened === OPENED_AT_ONCE) {
        this.#rest();
        return;
      }
      const source = this.#opened++;
      const stream = this.#streams[source];
      if (stream === undefined) continue;
      this.#open.set(source, stream[Symbol.asyncIterator]());
      this.#ask(source);
    }
  }

  /** Yields to the event loop before the next streams are opened. */
  #rest(): void {
    this.#rests = true;
    setImmediate(() => {
      this.#rests = false;
      this.#openMore();
    });
  }

  /** One reaction per promise: racing several would add reactions to the pending ones. */
  #ask(source: number): void {
    const iterator = this.#open.get(source);
    if (iterator === undefined) return;
    iterator.next().then(
      (result) => this.#take({ source, result }),
      (error: unknown) => this.#take({ source, error }),
    );
  }

  #take(arrival: Arrival<Item>): void {
    this.#arrivals.push(arrival);
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  /** Ends all streams without awaiting: one failure must not wait for the others. */
  #leave(): void {
    for (const iterator of this.#open.values()) iterator.return?.().catch(() => undefined);
    this.#open.clear();
    this.#arrivals.length = 0;
    this.#opened = this.#streams.length;
  }
}
