import { describe, expect, test } from "vitest";
import { IntList } from "#base";
import { BlockTable, blockId, KvCache, NO_MATCH } from "#kvcache";

/** `count` tokens that no other `seed` shares. */
const distinct = (seed: number, count: number) =>
  Array.from({ length: count }, (_, index) => seed * 100_000 + index);

/** A cache and the tables in it, driven as the scheduler does; blocks count from 0, not from 1. */
class Books {
  readonly cache: KvCache;
  readonly tables: BlockTable[] = [];

  constructor(blocks: number, blockTokens = 16, prefixCaching = true) {
    // vLLM shares full blocks alone.
    const partialReuse = false;
    this.cache = new KvCache({ blocks, blockTokens, prefixCaching, partialReuse });
  }

  /** Null when the blocks are not there. */
  start(tokens: number[], options: { salt?: string; reads?: boolean; log?: IntList } = {}) {
    const list = new IntList(tokens);
    const table = new BlockTable(options.salt ?? "");
    const match = options.reads === false ? NO_MATCH : this.cache.match(table.scope, list.view());
    const unheld = match.blocks.filter((block) => this.cache.holders(block) === 0).length;
    const needed = this.cache.blocksFor(tokens.length) - match.blocks.length;
    if (needed + unheld > this.cache.availableBlocks) return null;
    this.cache.adopt(table, match);
    this.tables.push(table);
    expect(this.cache.allocate(table, needed)).toBe(true);
    this.cache.publish(table, list, list.length, options.log ?? null);
    this.check();
    return { table, list, hit: match.blocks.length, blocks: [...table.view()] };
  }

  grow(at: { table: BlockTable; list: IntList }, tokens: number[]) {
    for (const token of tokens) at.list.push(token);
    const needed = this.cache.blocksFor(at.list.length) - at.table.length;
    if (!this.cache.allocate(at.table, needed)) return null;
    this.cache.publish(at.table, at.list, at.list.length);
    this.check();
    return needed;
  }

  end(at: { table: BlockTable } | null) {
    if (at === null) throw new Error("never started");
    this.cache.release(at.table);
    this.check();
  }

  /** Every block there is, in the order it would be handed out. */
  handOutAll() {
    const table = new BlockTable();
    this.tables.push(table);
    this.cache.allocate(table, this.cache.availableBlocks);
    return [...table.view()];
  }

  check() {
    this.cache.audit(this.tables);
  }
}

describe("prefixes", () => {
  const shared = distinct(1, 48);

  function filledAndEnded() {
    const books = new Books(10);
    const first = books.start([...shared, ...distinct(2, 7)]);
    const second = books.start([...shared, ...distinct(3, 5)]);
    return { books, first, second };
  }

  test("[KV7] V 5.1 (1): a second request shares three blocks and takes one", () => {
    const { books, first, second } = filledAndEnded();
    expect(first?.blocks).toEqual([0, 1, 2, 3]);
    expect(first?.table.publishedBlocks).toBe(3);
    expect(second?.hit).toBe(3);
    expect(second?.blocks).toEqual([0, 1, 2, 4]);
    expect([0, 1, 2, 3].map((block) => books.cache.holders(blockId(block)))).toEqual([2, 2, 2, 1]);
    expect(books.cache.poolStats().free).toBe(5);
  });

  test("[KV4] [KV5] V 5.1 (1): both end, and blocks are handed out unpublished first", () => {
    const { books, first, second } = filledAndEnded();
    books.end(first);
    books.end(second);
    const third = books.start([...shared, ...distinct(4, 6)]);
    expect(third?.blocks).toEqual([0, 1, 2, 4]);
    expect(books.cache.availableBlocks).toBe(6);
    books.end(third);
    const fourth = books.start(distinct(5, 160));
    expect(fourth?.blocks).toEqual([4, 3, 5, 6, 7, 8, 9, 2, 1, 0]);
    expect(books.cache.availableBlocks).toBe(0);
  });

  test("[KV11] V 5.1 (2): one that skips reading computes equal blocks of its own", () => {
    const books = new Books(10);
    books.start(shared);
    const second = books.start(shared, { reads: false });
    expect(second?.hit).toBe(0);
    expect(second?.blocks).toEqual([3, 4, 5]);
    expect(second?.table.publishedBlocks).toBe(3);
    expect(books.start([...shared, 7])?.blocks.slice(0, 3)).toEqual([0, 1, 2]);
  });

  test("[KV10] V 5.1 (3): generated tokens fill blocks and make them findable", () => {
    const books = new Books(10);
    const only = books.start(distinct(1, 55));
    if (only === null) throw new Error("does not fit");
    expect(books.grow(only, distinct(2, 4))).toBe(0);
    expect(books.grow(only, distinct(3, 15))).toBe(1);
    expect(only.table.publishedBlocks).toBe(4);
    expect(books.start([...only.list.view(), 9])?.hit).toBe(4);
  });

  test("[KV6] V 5.1 (4): tails are forgotten before heads, early enders first", () => {
    const books = new Books(10);
    const long = distinct(1, 87);
    const first = books.start(long);
    const second = books.start(distinct(2, 48));
    expect(books.cache.availableBlocks).toBe(1);
    books.end(first);
    books.end(second);
    const third = books.start([...long.slice(0, 32), ...distinct(3, 3)]);
    expect(third?.blocks).toEqual([0, 1, 5]);
    expect(books.cache.availableBlocks).toBe(7);
    expect(books.handOutAll()).toEqual([9, 4, 3, 2, 8, 7, 6]);
  });

  test("[KV12] V 5.1 (5): a block handed out again is not found under its old contents", () => {
    const books = new Books(1);
    books.end(books.start(distinct(1, 16)));
    const second = books.start(distinct(1, 15));
    expect(second?.hit).toBe(0);
    expect(second?.blocks).toEqual([0]);
    books.end(second);
    expect(books.start(distinct(1, 16))?.hit).toBe(0);
  });

  test("[KV6] V 5.1 (6): the block that was hit is not the one evicted for the rest", () => {
    const books = new Books(2);
    books.end(books.start(distinct(1, 16)));
    const both = distinct(1, 32);
    const second = books.start(both.slice(16));
    books.end(second);
    const third = books.start(both);
    expect(third?.hit).toBe(1);
    expect(third?.blocks).toEqual([0, 1]);
  });

  test("[KV15] V 5.1 (7): with caching off nothing is found", () => {
    const books = new Books(4, 4, false);
    books.end(books.start(distinct(1, 10)));
    const second = books.start(distinct(1, 16));
    expect(second?.hit).toBe(0);
    expect(books.start(distinct(2, 4))).toBeNull();
    books.end(second);
    expect(books.cache.poolStats()).toEqual({ free: 4, held: 0, cached: 0, total: 4 });
  });

  test("[KV7] V 5.1 (8): only full blocks are published, each once", () => {
    const books = new Books(10, 4);
    const only = books.start(distinct(1, 8));
    if (only === null) throw new Error("does not fit");
    expect(only.table.publishedBlocks).toBe(2);
    books.grow(only, distinct(2, 3));
    expect(only.table.publishedBlocks).toBe(2);
    books.grow(only, [5]);
    books.cache.publish(only.table, only.list, only.list.length);
    expect(only.table.publishedBlocks).toBe(3);
  });

  test("[KV9] V 5.1 (10): the same salt shares, another does not", () => {
    const books = new Books(20);
    const prompt = [...shared, ...distinct(2, 7)];
    books.start(prompt, { salt: "a" });
    expect(books.start(prompt, { salt: "a" })?.hit).toBe(3);
    expect(books.start(prompt, { salt: "b" })?.hit).toBe(0);
    expect(books.start(prompt)?.hit).toBe(0);
  });

  test("[KV2] V 5.1 (11): hits that are not held count against what is available", () => {
    const books = new Books(10);
    const part = distinct(1, 48);
    books.start(part);
    const twice = books.start([...part, ...part]);
    expect(twice?.blocks.length).toBe(6);
    books.end(twice);
    books.start(distinct(2, 32));
    expect(books.cache.availableBlocks).toBe(5);
    expect(books.start([...part, ...part, ...part])).toBeNull();
    const holders = (twice?.blocks ?? []).map((block) => books.cache.holders(blockId(block)));
    expect(holders).toEqual([1, 1, 1, 0, 0, 0]);
  });

  test("[KV14] V 5.1 (12): reset waits until nothing is held, and then nothing is found", () => {
    const books = new Books(10);
    const first = books.start(distinct(1, 55));
    expect(books.cache.reset()).toBe(false);
    books.end(first);
    expect(books.cache.reset()).toBe(true);
    books.check();
    expect(books.cache.poolStats()).toEqual({ free: 10, held: 0, cached: 0, total: 10 });
    expect(books.start(distinct(1, 55))?.hit).toBe(0);
  });

  test("[KV5] V 5.1 (23): the documented walk-through, free blocks first", () => {
    const books = new Books(10, 4);
    const long = distinct(1, 15);
    const first = books.start(long);
    if (first === null) throw new Error("does not fit");
    expect(first.blocks).toEqual([0, 1, 2, 3]);
    books.grow(first, distinct(2, 2));
    const second = books.start([...long.slice(0, 10), ...distinct(3, 4)]);
    expect(second?.blocks).toEqual([0, 1, 5, 6]);
    books.end(first);
    books.end(second);
    const third = books.start([...long.slice(0, 12), ...distinct(4, 17)]);
    expect(third?.blocks).toEqual([0, 1, 2, 6, 4, 7, 8, 9]);
    expect(books.handOutAll()).toEqual([3, 5]);
  });

  test("[KV8] a prompt of full blocks still computes its last token", () => {
    const books = new Books(10);
    books.end(books.start(distinct(1, 48)));
    expect(books.cache.match("", Int32Array.from(distinct(1, 48))).blocks.length).toBe(2);
    expect(books.cache.match("", Int32Array.from(distinct(1, 49))).blocks.length).toBe(3);
    expect(books.cache.match("", Int32Array.from(distinct(1, 1))).blocks.length).toBe(0);
  });

  test("[KV16] what a failed step was to compute is forgotten, held or not", () => {
    const books = new Books(10);
    const log = new IntList();
    const first = books.start(distinct(1, 40), { log });
    const second = books.start(distinct(2, 40), { log });
    books.end(second);
    books.cache.forgetPublished(log);
    books.check();
    expect(books.start(distinct(1, 40))?.hit).toBe(0);
    expect(books.start(distinct(2, 40))?.hit).toBe(0);
    books.end(first);
  });
});

describe("vLLM's scenarios of sharing", () => {
  test("[KV2] V 5.3 (V1): blocks are handed out until there are none", () => {
    const books = new Books(4, 4);
    for (const seed of [1, 2, 3, 4]) expect(books.start(distinct(seed, 4))).not.toBeNull();
    expect(books.start(distinct(5, 1))).toBeNull();
    expect(books.cache.blocksFor(17)).toBeGreaterThan(books.cache.totalBlocks);
  });

  test("[KV2] V 5.3 (V2): inside a block nothing is allocated, behind it one block", () => {
    const books = new Books(4, 4);
    const only = books.start(distinct(1, 3));
    if (only === null) throw new Error("does not fit");
    expect(books.grow(only, [7])).toBe(0);
    expect(books.grow(only, [8])).toBe(1);
  });

  test("[KV24] V 5.3 (V3): a fork that goes on gets a copy, once", () => {
    const books = new Books(4, 4);
    const parent = books.start(distinct(1, 3));
    if (parent === null) throw new Error("does not fit");
    const child = { table: new BlockTable(), list: new IntList(parent.list.view()) };
    books.cache.fork(parent.table, child.table);
    books.tables.push(child.table);
    books.check();
    expect([...child.table.view()]).toEqual([...parent.table.view()]);
    expect(books.cache.holders(child.table.get(0))).toBe(2);

    expect(books.cache.makeWritable(child.table, 3)).toBe(true);
    books.grow(child, [7]);
    const [from, to] = [parent.table.get(0), child.table.get(0)];
    expect(from).not.toBe(to);
    expect(books.cache.takeMoves()).toEqual([{ kind: "copy", from, to }]);
    expect(books.cache.availableBlocks).toBe(2);

    // The parent is the last holder of its block.
    expect(books.cache.makeWritable(parent.table, 3)).toBe(true);
    expect(books.cache.takeMoves()).toEqual([]);
    expect(books.cache.stats().copiedBlocks).toBe(1);
  });

  test("[KV24] a copy that finds no block changes nothing", () => {
    const books = new Books(1, 4);
    const parent = books.start(distinct(1, 3));
    if (parent === null) throw new Error("does not fit");
    const child = new BlockTable();
    books.cache.fork(parent.table, child);
    books.tables.push(child);
    expect(books.cache.makeWritable(child, 3)).toBe(false);
    expect(child.get(0)).toBe(parent.table.get(0));
    books.check();
  });
});

test("[KV3] planted bugs are caught: a lost release and a second one", () => {
  const books = new Books(4);
  const lost = books.start(distinct(1, 20));
  expect(() => books.cache.audit([])).toThrow("tables hold it 0 times");
  if (lost === null) throw new Error("does not fit");
  const copy = new BlockTable();
  for (const block of lost.table.view()) copy.ids.push(block);
  books.end(lost);
  expect(() => books.cache.release(copy)).toThrow("has no holder");
});
