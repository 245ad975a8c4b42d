/** The cache is emptied on request, while requests run. */
import { expect, test } from "vitest";
import { IntList } from "#base";
import { BlockTable, KvCache } from "#kvcache";

const tokens = (first: number) => new IntList(Array.from({ length: 12 }, (_, at) => first + at));

/** A sequence that has computed all of its tokens. */
function begin(cache: KvCache, list: IntList): BlockTable {
  const table = new BlockTable("");
  cache.allocate(table, cache.blocksFor(list.length));
  cache.publish(table, list, list.length);
  return table;
}

test("[KV47] cached blocks are forgotten with their events, held ones are found as before", () => {
  const cache = new KvCache({ blocks: 8, blockTokens: 4, events: "v1_block_key" });
  const [ended, running] = [tokens(100), tokens(200)];
  const gone = begin(cache, ended);
  const held = begin(cache, running);
  cache.release(gone);
  cache.takeEvents();
  expect(cache.poolStats()).toEqual({ free: 2, held: 3, cached: 3, total: 8 });
  cache.forgetCached();
  expect(cache.poolStats()).toEqual({ free: 5, held: 3, cached: 0, total: 8 });
  expect(cache.match("", ended.view()).tokens).toBe(0);
  expect(cache.match("", running.view()).tokens).toBe(11);
  const removed = cache.takeEvents().flatMap(({ event }) => {
    return event.type === "removed" ? event.hashes : [];
  });
  expect(removed).toHaveLength(3);
  cache.audit([held]);
});

test("[KV47] an empty cache has nothing to forget", () => {
  const cache = new KvCache({ blocks: 2, blockTokens: 4 });
  cache.forgetCached();
  expect(cache.poolStats()).toEqual({ free: 2, held: 0, cached: 0, total: 2 });
});
