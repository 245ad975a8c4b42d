/** An item, and which of the merged streams it came from. */
export interface Merged<Item> {
  readonly source: number;
  readonly item: Item;
}

/** What a stream answered when it was asked for an item. */
type Arrival<Item> =
  | { readonly source: number; readonly result: IteratorResult<Item> }
  | { readonly source: number; readonly error: unknown };

/**
 * Items of all streams as they come, each stream's in order; at most `atOnce` streams are open at a
 * time, the first ones first. Every open stream is asked for one item ahead, and asked again when
 * that was taken: none fills memory, and none is left behind. The first failure, or leaving it,
 * leaves them all.
 */
export function mergeStreams<Item>(
  streams: readonly AsyncIterable<Item>[],
  atOnce = Number.POSITIVE_INFINITY,
): AsyncIterableIterator<Merged<Item>> {
  const [only] = streams;
  if (only !== undefined && streams.length === 1) return asMerged(only);
  return new StreamMerge(streams, Math.max(1, atOnce));
}

/** The usual case, without further promises for every item. */
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

/** Streams opened in one turn of the event loop: a request may have a thousand. */
const OPENED_AT_ONCE = 32;

class StreamMerge<Item> implements AsyncIterableIterator<Merged<Item>> {
  readonly #streams: readonly AsyncIterable<Item>[];
  readonly #atOnce: number;
  /** The open ones, by their place. */
  readonly #open = new Map<number, AsyncIterator<Item>>();
  /** In the order they came; at most one of each open stream. */
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

  /** Others have their turn before the next ones are opened. */
  #rest(): void {
    this.#rests = true;
    setImmediate(() => {
      this.#rests = false;
      this.#openMore();
    });
  }

  /** One reaction to one promise: waiting for several at a time adds to those that still wait. */
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

  /** Not awaited: a stream ends its own way, and one failure must not wait for the others. */
  #leave(): void {
    for (const iterator of this.#open.values()) iterator.return?.().catch(() => undefined);
    this.#open.clear();
    this.#arrivals.length = 0;
    this.#opened = this.#streams.length;
  }
}
