import { describe, expect, test } from "vitest";
import { IntList } from "#base";
import { BlockTable, EVICTION_POLICIES, type EvictionPolicyName, KvCache } from "#kvcache";
import {
  type BlockPast,
  type EvictionPromise,
  evictionContract,
  type Passing,
} from "../contracts/eviction.ts";

const byRelease = (a: BlockPast, b: BlockPast) => a.releasedAt - b.releasedAt;

const byPriority = (a: BlockPast, b: BlockPast) => a.priority - b.priority || byRelease(a, b);
const byPassing = (a: BlockPast, b: BlockPast) => (a.asideAt ?? 0) - (b.asideAt ?? 0);
const toTurn: Passing = { order: byPassing, returnsTo: "turn" };

const PROMISES: Readonly<Record<EvictionPolicyName, EvictionPromise>> = {
  lru: { order: byRelease, passing: null },
  lfu: { order: (a, b) => a.uses - b.uses || byRelease(a, b), passing: toTurn },
  "length-aware": {
    order: (a, b) => a.uses - b.uses || b.index - a.index || byRelease(a, b),
    passing: toTurn,
  },
  priority: {
    order: byPriority,
    passing: {
      order: (a, b) => a.priority - b.priority || byPassing(a, b),
      returnsTo: "front",
    },
  },
  "true-priority": { order: byPriority, passing: null },
};

for (const name of EVICTION_POLICIES) evictionContract(name, PROMISES[name]);

/** A cache of blocks of one token, and prompts that come and go one after the other. */
class Prompts {
  readonly cache: KvCache;
  readonly #tables: BlockTable[] = [];

  constructor(evictionPolicy: EvictionPolicyName, blocks: number) {
    this.cache = new KvCache({ blocks, blockTokens: 1, evictionPolicy });
  }

  /** How many leading tokens were stored. */
  serve(tokens: readonly number[], priorities: readonly number[] = []): number {
    const table = this.hold(tokens, priorities);
    const hits = tokens.length - table.computed;
    this.cache.release(table.blocks);
    this.cache.audit(this.#tables);
    return hits;
  }

  hold(tokens: readonly number[], priorities: readonly number[] = []) {
    const list = new IntList([...tokens, -1]);
    const blocks = new BlockTable();
    const match = this.cache.match("", list.view());
    this.cache.adopt(blocks, match);
    const computed = tokens.length - match.blocks.length;
    expect(this.cache.allocate(blocks, computed)).toBe(true);
    this.cache.publish(blocks, list, tokens.length);
    priorities.forEach((priority, index) => {
      this.cache.prioritise(blocks, index, index + 1, priority);
    });
    this.#tables.push(blocks);
    this.cache.audit(this.#tables);
    return { blocks, computed };
  }

  /** How many leading tokens are stored. */
  stored(tokens: readonly number[]): number {
    return this.cache.match("", Int32Array.from([...tokens, -1])).blocks.length;
  }
}

describe("lfu", () => {
  test("[KV19] a prefix that many asked for outlives newer ones", () => {
    const prompts = new Prompts("lfu", 4);
    for (let time = 0; time < 3; time++) prompts.serve([1, 2]);
    prompts.serve([3]);
    prompts.serve([4]);
    prompts.serve([5]);
    expect(prompts.stored([1, 2])).toBe(2);
    expect(prompts.stored([3])).toBe(0);
    expect(prompts.stored([4])).toBe(1);
  });

  test("[KV19] uses are counted from when a block is handed out", () => {
    const prompts = new Prompts("lfu", 2);
    for (let time = 0; time < 9; time++) prompts.serve([1]);
    prompts.serve([2, 3]);
    prompts.serve([4]);
    prompts.serve([5]);
    expect(prompts.stored([4]) + prompts.stored([2])).toBe(1);
  });
});

test("[KV20] length-aware forgets what lies farthest from the root, among equally used", () => {
  const prompts = new Prompts("length-aware", 6);
  prompts.serve([1, 2, 3, 4]);
  prompts.serve([5, 6]);
  prompts.serve([7]);
  expect(prompts.stored([1, 2, 3, 4])).toBe(3);
  prompts.serve([8]);
  expect(prompts.stored([1, 2, 3, 4])).toBe(2);
  expect(prompts.stored([5, 6])).toBe(2);
});

describe("priority", () => {
  test("[KV21] low priorities go first, the default is 35", () => {
    const prompts = new Prompts("priority", 3);
    prompts.serve([1], [36]);
    prompts.serve([2]);
    prompts.serve([3], [34]);
    prompts.serve([4], [100]);
    expect([1, 2, 3].map((token) => prompts.stored([token]))).toEqual([1, 1, 0]);
    prompts.serve([5], [100]);
    expect([1, 2].map((token) => prompts.stored([token]))).toEqual([1, 0]);
  });

  test("[KV21] the latest claim wins, downwards too, and ends when the block is handed out", () => {
    const prompts = new Prompts("priority", 2);
    prompts.serve([1], [90]);
    prompts.serve([2], [50]);
    prompts.serve([1], [10]);
    prompts.serve([3]);
    expect(prompts.stored([1])).toBe(0);
    expect(prompts.stored([2])).toBe(1);
    prompts.serve([2], [40]);
    prompts.serve([4]);
    expect([2, 3, 4].map((token) => prompts.stored([token]))).toEqual([1, 0, 1]);
  });

  test("[KV21] priorities outside 0 to 100, and of blocks that are not held, are bugs", () => {
    const prompts = new Prompts("priority", 2);
    expect(() => prompts.serve([1], [101])).toThrow("priority 101");
    expect(() => prompts.serve([2], [-1])).toThrow("priority -1");
    expect(() => prompts.cache.prioritise(new BlockTable(), 0, 1, 5)).toThrow();
  });

  test("[KV18] a worthless head stays while something worthy continues it", () => {
    const prompts = new Prompts("priority", 4);
    prompts.serve([1, 2, 3], [0, 0, 100]);
    prompts.serve([4], [50]);
    prompts.serve([5], [60]);
    expect(prompts.stored([1, 2, 3])).toBe(3);
    expect(prompts.stored([4])).toBe(0);
    prompts.serve([6], [100]);
    expect(prompts.stored([1, 2, 3])).toBe(3);
    // 100 against 100: the older one goes, and then it is the head's turn, which is worth nothing.
    prompts.serve([7], [100]);
    expect(prompts.stored([1, 2, 3])).toBe(2);
    prompts.serve([8], [40]);
    prompts.serve([9], [40]);
    expect(prompts.stored([1, 2, 3])).toBe(0);
    expect(prompts.stored([7])).toBe(1);
  });
});

describe("true-priority", () => {
  test("[KV22] what continues a victim is forgotten with it, and its blocks are free", () => {
    const prompts = new Prompts("true-priority", 5);
    prompts.serve([1, 2, 3], [0, 100, 100]);
    prompts.serve([1, 2, 4], [0, 100, 100]);
    prompts.serve([5], [50]);
    prompts.serve([6], [50]);
    expect(prompts.stored([1])).toBe(0);
    expect(prompts.cache.poolStats()).toEqual({ free: 3, held: 0, cached: 2, total: 5 });
    // One block made room; the three that continued it are no victims of their own.
    expect(prompts.cache.evictions).toBe(1);
    expect(prompts.stored([5])).toBe(1);
  });

  test("[KV22] a prefix that is stored twice loses one and keeps what continues it", () => {
    const prompts = new Prompts("true-priority", 4);
    const { cache } = prompts;
    const list = new IntList([1, 2, -1]);
    const tables = [new BlockTable(), new BlockTable()];
    for (const table of tables) cache.allocate(table, 1);
    for (const table of tables) cache.publish(table, list, 1);
    cache.prioritise(tables[0] ?? new BlockTable(), 0, 1, 0);
    for (const table of tables) cache.release(table);
    expect(prompts.serve([1, 2], [90, 90])).toBe(1);
    prompts.serve([3, 4]);
    expect(prompts.stored([1, 2])).toBe(2);
  });
});

describe("every order", () => {
  test.for(EVICTION_POLICIES)("[KV14] %s lets go of everything on reset", (name) => {
    const prompts = new Prompts(name, 8);
    prompts.serve([1, 2, 3], [0, 50, 100]);
    prompts.serve([1, 4, 5], [0, 50, 100]);
    expect(prompts.cache.reset()).toBe(true);
    expect(prompts.cache.poolStats()).toEqual({ free: 8, held: 0, cached: 0, total: 8 });
    expect(prompts.stored([1])).toBe(0);
    expect(prompts.serve([1, 2, 3])).toBe(0);
  });

  test.for(EVICTION_POLICIES)("[KV2] %s hands out all that is available", (name) => {
    const prompts = new Prompts(name, 8);
    prompts.serve([1, 2, 3], [0, 50, 100]);
    const held = prompts.hold([1, 2, 4], [0, 50, 100]);
    prompts.serve([1, 5], [0, 0]);
    expect(prompts.cache.availableBlocks).toBe(5);
    const rest = new BlockTable();
    expect(prompts.cache.allocate(rest, 6)).toBe(false);
    expect(prompts.cache.allocate(rest, 5)).toBe(true);
    prompts.cache.audit([held.blocks, rest]);
    expect(prompts.stored([1, 2, 4])).toBe(3);
    expect(prompts.cache.availableBlocks).toBe(0);
  });
});
