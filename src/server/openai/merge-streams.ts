/** An item, and which of the merged streams it came from. */
export interface Merged<Item> {
  readonly source: number;
  readonly item: Item;
}

interface Arrival<Item> {
  readonly source: number;
  readonly result: IteratorResult<Item>;
}

/** Items of all streams as they come, each stream's in order. Leaving it leaves them all. */
export function mergeStreams<Item>(
  streams: readonly AsyncIterable<Item>[],
): AsyncIterable<Merged<Item>> {
  const [only] = streams;
  return only !== undefined && streams.length === 1 ? asMerged(only) : race(streams);
}

/** The usual case, without a generator's promises for every item. */
function asMerged<Item>(stream: AsyncIterable<Item>): AsyncIterable<Merged<Item>> {
  const wrap = (result: IteratorResult<Item>): IteratorResult<Merged<Item>> =>
    result.done === true ? result : { done: false, value: { source: 0, item: result.value } };
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = stream[Symbol.asyncIterator]();
      return {
        next: () => iterator.next().then(wrap),
        return: async () => {
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

async function* race<Item>(streams: readonly AsyncIterable<Item>[]): AsyncGenerator<Merged<Item>> {
  const iterators = streams.map((stream) => stream[Symbol.asyncIterator]());
  const next = async (source: number, iterator: AsyncIterator<Item>): Promise<Arrival<Item>> => ({
    source,
    result: await iterator.next(),
  });
  const pending = new Map(
    iterators.map((iterator, source) => [source, next(source, iterator)] as const),
  );
  try {
    while (pending.size > 0) {
      const { source, result } = await Promise.race(pending.values());
      const iterator = iterators[source];
      if (result.done === true || iterator === undefined) {
        pending.delete(source);
        continue;
      }
      pending.set(source, next(source, iterator));
      yield { source, item: result.value };
    }
  } finally {
    // Not awaited: a stream ends its own way, and one failure must not wait for the others.
    for (const iterator of iterators) iterator.return?.().catch(() => undefined);
    for (const rest of pending.values()) rest.catch(() => undefined);
  }
}
