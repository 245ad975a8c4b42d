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
export async function* mergeStreams<Item>(
  streams: readonly AsyncIterable<Item>[],
): AsyncGenerator<Merged<Item>> {
  const [only] = streams;
  if (only !== undefined && streams.length === 1) {
    for await (const item of only) yield { source: 0, item };
    return;
  }
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
