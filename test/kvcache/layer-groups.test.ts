/** A cache whose layers are in several groups, which see different windows. */
import { describe, expect, test } from "vitest";
import { IntList } from "#base";
import { BlockTable, KvCache, matchParts, type NumberedKvEvent } from "#kvcache";
import { CacheManager, range } from "../support/cache-manager.ts";

const window = (tokens: number) => ({ tokens, sinkTokens: 0 });

describe("TensorRT-LLM's scenarios of several windows", () => {
  test("[KV44] T 37: windows of 8 and 16 have as many blocks for the same tokens", () => {
    const windows = [window(16), window(8)];
    const manager = new CacheManager({ blocks: 16, blockTokens: 4, windows });
    const lengths = () => first.table.parts.map(({ length }) => length);
    const first = manager.add(range(0, 7));
    expect(lengths()).toEqual([2, 2]);
    manager.push(first, 8, 9, 10, 11);
    expect(lengths()).toEqual([3, 3]);
    manager.remove(first);

    const second = manager.add(range(0, 6));
    expect(second.cached).toBe(6);
    const heads = second.table.parts.map((part) => part.get(0));
    expect(new Set(heads).size).toBe(2);
    manager.push(second, 7, 8);
    expect(second.table.parts.map(({ length }) => length)).toEqual([3, 3]);
    expect(second.table.parts.map((part) => part.get(0))).toEqual(heads);
  });

  test("[KV46] T 44: each window has a created event, the smaller first, and stores its own", () => {
    const windows = [window(16), window(12)];
    const shape = { blocks: 16, hostBlocks: 4, blockTokens: 4, windows, events: "v1_block_key" };
    const manager = new CacheManager({ ...shape, events: "v1_block_key" });
    const groups = (events: readonly NumberedKvEvent[]) =>
      events.map(({ id, group = 0, event }) => [id, windows[group]?.tokens, event.type]);
    expect(groups(manager.cache.takeEvents())).toEqual([
      [0, 12, "created"],
      [1, 16, "created"],
    ]);
    const sequence = manager.add(range(0, 9));
    manager.store(sequence);
    const stored = manager.cache.takeEvents();
    // Of 2026: all windows store, the largest first.
    expect(groups(stored)).toEqual([
      [2, 16, "stored"],
      [3, 12, "stored"],
    ]);
    // Equal tokens have equal hashes in both.
    const hashes = stored.map(({ event }) => event.type === "stored" && event.blocks[0]?.hash);
    expect(hashes[0]).toBe(hashes[1]);
  });
});

describe("[KV44] a prefix counts as far as every group has it", () => {
  /** A cache of two groups in which a prompt was computed and forgotten by its sequence. */
  function cacheWith(prompt: readonly number[]) {
    const cache = new KvCache({ blocks: 12, blockTokens: 4, windows: [null, window(6)] });
    const table = new BlockTable("");
    const tokens = new IntList(prompt);
    expect(cache.allocate(table, cache.blocksFor(prompt.length))).toBe(true);
    cache.publish(table, tokens, prompt.length);
    return { cache, table, tokens };
  }

  test("to the token, the partly filled last block included", () => {
    const { cache, table, tokens } = cacheWith(range(1, 11));
    cache.release(table, { tokens, computed: 11 });
    const match = cache.match("", Int32Array.from([...range(1, 10), 99, 99]));
    expect(matchParts(match).map((part) => part.tokens)).toEqual([10, 10]);
    cache.audit([]);
  });

  test("and no farther than the group that forgot most", () => {
    const { cache, table, tokens } = cacheWith(range(1, 12));
    cache.release(table, { tokens, computed: 12 });
    expect(cache.match("", Int32Array.from(range(1, 20))).tokens).toBe(12);
    // Twelve blocks of which six are stored: eight wanted, so two stored ones go.
    const other = new BlockTable("other");
    expect(cache.allocate(other, 4)).toBe(true);
    const match = cache.match("", Int32Array.from(range(1, 20)));
    expect(match.tokens).toBeLessThan(12);
    expect(matchParts(match).every((part) => part.tokens === match.tokens)).toBe(true);
    cache.audit([other]);
  });

  test("what fell out of a window is not held by who finds it", () => {
    const { cache, table, tokens } = cacheWith(range(1, 12));
    cache.release(table, { tokens, computed: 12 });
    const second = new BlockTable("");
    cache.adopt(second, cache.match("", Int32Array.from(range(1, 20))));
    // Of twelve tokens the next query sees the last five: blocks 1 and 2.
    expect(second.parts.map((part) => [0, 1, 2].map((index) => part.holds(index)))).toEqual([
      [true, true, true],
      [false, true, true],
    ]);
    expect(cache.poolStats().held).toBe(5);
    cache.audit([second]);
  });
});

test("[KV44] a table grows in all groups, or in none", () => {
  const cache = new KvCache({ blocks: 7, blockTokens: 4, windows: [null, window(6)] });
  const table = new BlockTable("");
  expect(cache.allocate(table, 4)).toBe(false);
  expect(cache.poolStats()).toMatchObject({ free: 7, held: 0 });
  expect(cache.allocate(table, 3)).toBe(true);
  expect(cache.poolStats()).toMatchObject({ free: 1, held: 6 });
  cache.release(table);
  expect(cache.poolStats()).toMatchObject({ free: 7, held: 0 });
});

test("[KV45] blocks of all groups are in one order of eviction", () => {
  const cache = new KvCache({ blocks: 4, blockTokens: 4, windows: [null, window(6)] });
  for (const scope of ["a", "b", "c"]) {
    const table = new BlockTable(scope);
    expect(cache.allocate(table, 1)).toBe(true);
    cache.publish(table, new IntList(range(1, 4)), 4);
    cache.release(table);
  }
  const found = (scope: string) => cache.match(scope, Int32Array.from(range(1, 9))).tokens;
  expect(["a", "b", "c"].map(found)).toEqual([0, 4, 4]);
});

test("[KV45] one salt's blocks in one group are never another's, whatever the salt is", () => {
  const cache = new KvCache({ blocks: 8, blockTokens: 4, windows: [null, window(6)] });
  const table = new BlockTable("");
  expect(cache.allocate(table, 1)).toBe(true);
  cache.publish(table, new IntList(range(1, 4)), 4);
  // What the second group's scope is called inside cannot be said from outside.
  expect(cache.match("g1", Int32Array.from(range(1, 9))).tokens).toBe(0);
  expect(cache.match("", Int32Array.from(range(1, 9))).tokens).toBe(4);
});
