import { expect, test } from "vitest";
import { IntList } from "#base";
import { BlockPool, LruEviction, levelBlockId } from "#kvcache";

function makePool(blocks: number) {
  const evicted: number[] = [];
  const pool = new BlockPool(blocks, new LruEviction(blocks), (block) => evicted.push(block));
  return { pool, evicted };
}

test("[KV1] blocks are free, then held, then cached or free again", () => {
  const { pool } = makePool(4);
  const held = new IntList();
  expect(pool.stats()).toEqual({ free: 4, held: 0, cached: 0, total: 4 });
  expect(pool.allocate(3, held)).toBe(true);
  expect([...held.view()]).toEqual([0, 1, 2]);
  pool.publish(levelBlockId(0));
  for (const block of held.view()) pool.release(levelBlockId(block));
  expect(pool.stats()).toEqual({ free: 3, held: 0, cached: 1, total: 4 });
  pool.audit(new Int32Array(4));
});

test("[KV2] a refused allocation touches nothing", () => {
  const { pool, evicted } = makePool(3);
  const held = new IntList();
  pool.allocate(2, held);
  pool.publish(levelBlockId(0));
  pool.release(levelBlockId(0));
  expect(pool.allocate(3, held)).toBe(false);
  expect(held.length).toBe(2);
  expect(evicted).toEqual([]);
  expect(pool.stats()).toEqual({ free: 1, held: 1, cached: 1, total: 3 });
});

test("[KV5] free blocks go before cached ones, the last given back first", () => {
  const { pool, evicted } = makePool(4);
  const held = new IntList();
  pool.allocate(4, held);
  pool.publish(levelBlockId(0));
  for (const block of [0, 1, 2, 3]) pool.release(levelBlockId(block));
  const again = new IntList();
  pool.allocate(4, again);
  expect([...again.view()]).toEqual([3, 2, 1, 0]);
  expect(evicted).toEqual([0]);
  expect(pool.evictions).toBe(1);
});

test("[KV6] a cached block that is held again is no victim", () => {
  const { pool, evicted } = makePool(2);
  pool.allocate(2, new IntList());
  for (const block of [0, 1]) {
    pool.publish(levelBlockId(block));
    pool.release(levelBlockId(block));
  }
  pool.retain(levelBlockId(0));
  pool.allocate(1, new IntList());
  expect(evicted).toEqual([1]);
  expect(pool.holders(levelBlockId(0))).toBe(1);
});

test("[KV3] releasing a block that is not held, and retaining a free one, are bugs", () => {
  const { pool } = makePool(2);
  expect(() => pool.release(levelBlockId(0))).toThrow("has no holder");
  expect(() => pool.retain(levelBlockId(0))).toThrow("free block");
  expect(() => pool.publish(levelBlockId(0))).toThrow("has no holder");
});

test("[KV3] the audit catches a planted lost release and a planted second one", () => {
  const { pool } = makePool(2);
  pool.allocate(1, new IntList());
  const tablesHold =
    (...holders: number[]) =>
    () =>
      pool.audit(new Int32Array(holders));
  expect(tablesHold(1, 0)).not.toThrow();
  expect(tablesHold(0, 0)).toThrow("counts 1 holders, tables hold it 0 times");
  pool.release(levelBlockId(0));
  expect(tablesHold(1, 0)).toThrow("counts 0 holders, tables hold it 1 times");
});

test("[KV16] an unpublished block is free once it is not held", () => {
  const { pool } = makePool(2);
  pool.allocate(2, new IntList());
  for (const block of [0, 1]) pool.publish(levelBlockId(block));
  pool.release(levelBlockId(0));
  pool.unpublish(levelBlockId(0));
  pool.unpublish(levelBlockId(1));
  pool.release(levelBlockId(1));
  expect(pool.stats()).toEqual({ free: 2, held: 0, cached: 0, total: 2 });
});
