import { describe, expect, expectTypeOf, test } from "vitest";
import { IntList } from "#base";
import type { BlockId, BlockPool, EvictionPolicy, LevelBlockId } from "#kvcache";
import { LevelBooks } from "../../src/kvcache/levels/level-books.ts";

/** Four blocks, from 10 on; all that were evicted. */
function hostLevel() {
  const evicted: BlockId[] = [];
  const books = new LevelBooks(
    { level: 1, first: 10, blocks: 4, evictionPolicy: "priority" },
    () => false,
    (block) => evicted.push(block),
  );
  return { books, evicted };
}

/** Caches `count` blocks, in this order. */
function cached(books: LevelBooks, count: number): BlockId[] {
  const blocks = Array.from({ length: count }, () => books.take()).filter(
    (block) => block !== null,
  );
  for (const block of blocks) books.publish(block);
  for (const block of blocks) books.release(block, 0);
  return blocks;
}

describe("a level", () => {
  test("ids of the cache and of a level are types of their own", () => {
    expectTypeOf<LevelBlockId>().not.toExtend<Parameters<LevelBooks["has"]>[0]>();
    expectTypeOf<BlockId>().not.toExtend<Parameters<BlockPool["holders"]>[0]>();
    expectTypeOf<BlockId>().not.toExtend<Parameters<EvictionPolicy["add"]>[0]>();
  });

  test("[KV1] names its blocks as all levels do", () => {
    const { books } = hostLevel();
    const ids = new IntList();
    expect(books.allocate(4, ids)).toBe(true);
    expect([...ids.view()].sort()).toEqual([10, 11, 12, 13]);
    expect([...ids.view()].every((id) => books.has(id as BlockId))).toBe(true);
    expect(books.has(9 as BlockId) || books.has(14 as BlockId)).toBe(false);
    expect(books.allocate(1, ids)).toBe(false);
    const holders = new Int32Array(14).fill(1, 10);
    expect(() => books.audit(holders)).not.toThrow();
  });

  test("[KV12] tells of what it evicts, under its shared name", () => {
    const { books, evicted } = hostLevel();
    const [first] = cached(books, 4);
    expect(books.take()).toBe(first);
    expect(evicted).toEqual([first]);
    expect(books.evictions).toBe(1);
  });

  test("[KV21] what is handed out anew is worth 35 again", () => {
    const { books } = hostLevel();
    const block = books.take();
    if (block === null) throw new Error("No block");
    expect(books.claim(block, { priority: 80, durationMs: 5 })).toEqual({
      ...{ newValue: 80, oldValue: 35 },
    });
    expect(books.leaseOf(block)).toEqual({ priority: 80, durationMs: 5, deadlineMs: null });
    books.release(block, 0);
    expect(books.take()).toBe(block);
    expect(books.leaseOf(block)).toEqual({ priority: 35, durationMs: null, deadlineMs: null });
  });

  test("[KV36] ends durations of cached blocks alone", () => {
    const { books } = hostLevel();
    const [held, free] = [books.take(), books.take()];
    if (held === null || free === null) throw new Error("No block");
    for (const block of [held, free]) books.publish(block);
    for (const block of [held, free]) books.claim(block, { priority: 80, durationMs: 5 });
    books.release(free, 10);
    const ended: [BlockId, number][] = [];
    books.expire(14, (...end) => ended.push(end));
    expect(ended).toEqual([]);
    books.expire(15, (...end) => ended.push(end));
    expect(ended).toEqual([[free, 80]]);
    expect([books.priorityOf(free), books.priorityOf(held)]).toEqual([35, 80]);
  });

  test("[KV36] time runs on under a pin, and stops under a holder", () => {
    const { books } = hostLevel();
    const [one, other] = [books.take(), books.take()];
    if (one === null || other === null) throw new Error("No block");
    for (const block of [one, other]) {
      books.publish(block);
      books.claim(block, { priority: 80, durationMs: 5 });
      books.release(block, 0);
      books.pin(block);
    }
    books.retain(other);
    books.expire(5, () => {});
    expect([one, other].map((block) => books.priorityOf(block))).toEqual([35, 80]);
    books.release(other, 6);
    books.release(other, 7);
    expect(books.leaseOf(other).deadlineMs).toBe(12);
    books.release(one, 7);
    expect(books.leaseOf(one)).toEqual({ priority: 35, durationMs: 5, deadlineMs: null });
  });

  test("[KV41] a demoted block is the next to go", () => {
    const { books } = hostLevel();
    const blocks = cached(books, 4);
    const last = blocks.at(-1);
    if (last === undefined) throw new Error("No block");
    books.demote(last);
    expect(books.priorityOf(last)).toBe(0);
    expect(books.take()).toBe(last);
  });

  test("[KV14] frees what is cached, and forgets how long it was to stay", () => {
    const { books } = hostLevel();
    const block = books.take();
    if (block === null) throw new Error("No block");
    books.publish(block);
    books.claim(block, { priority: 80, durationMs: 5 });
    books.release(block, 0);
    books.freeCached();
    expect(books.poolStats()).toEqual({ free: 4, held: 0, cached: 0, total: 4 });
    books.expire(100, () => expect.unreachable());
  });
});
