import { describe, expect, test } from "vitest";
import { IntList } from "#base";
import type { BlockId } from "#kvcache";
import { CacheTier } from "../../src/kvcache/levels/cache-tier.ts";

/** Four blocks, from 10 on; all that were evicted. */
function hostTier() {
  const evicted: BlockId[] = [];
  const tier = new CacheTier(
    { level: 1, first: 10, blocks: 4, evictionPolicy: "priority" },
    () => false,
    (block) => evicted.push(block),
  );
  return { tier, evicted };
}

/** Caches `count` blocks, in this order. */
function cached(tier: CacheTier, count: number): BlockId[] {
  const blocks = Array.from({ length: count }, () => tier.take()).filter((block) => block !== null);
  for (const block of blocks) tier.publish(block);
  for (const block of blocks) tier.release(block, 0);
  return blocks;
}

describe("a level", () => {
  test("[KV1] names its blocks as all levels do", () => {
    const { tier } = hostTier();
    const ids = new IntList();
    expect(tier.allocate(4, ids)).toBe(true);
    expect([...ids.view()].sort()).toEqual([10, 11, 12, 13]);
    expect([...ids.view()].every((id) => tier.has(id as BlockId))).toBe(true);
    expect(tier.has(9 as BlockId) || tier.has(14 as BlockId)).toBe(false);
    expect(tier.allocate(1, ids)).toBe(false);
    const holders = new Int32Array(14).fill(1, 10);
    expect(() => tier.audit(holders)).not.toThrow();
  });

  test("[KV12] tells of what it evicts, under its shared name", () => {
    const { tier, evicted } = hostTier();
    const [first] = cached(tier, 4);
    expect(tier.take()).toBe(first);
    expect(evicted).toEqual([first]);
    expect(tier.evictions).toBe(1);
  });

  test("[KV21] what is handed out anew is worth 35 again", () => {
    const { tier } = hostTier();
    const block = tier.take();
    if (block === null) throw new Error("No block");
    expect(tier.claim(block, { priority: 80, durationMs: 5 })).toEqual({
      ...{ newValue: 80, oldValue: 35 },
    });
    expect(tier.leaseOf(block)).toEqual({ priority: 80, durationMs: 5, deadlineMs: null });
    tier.release(block, 0);
    expect(tier.take()).toBe(block);
    expect(tier.leaseOf(block)).toEqual({ priority: 35, durationMs: null, deadlineMs: null });
  });

  test("[KV36] ends durations of cached blocks alone", () => {
    const { tier } = hostTier();
    const [held, free] = [tier.take(), tier.take()];
    if (held === null || free === null) throw new Error("No block");
    for (const block of [held, free]) tier.publish(block);
    for (const block of [held, free]) tier.claim(block, { priority: 80, durationMs: 5 });
    tier.release(free, 10);
    const ended: [BlockId, number][] = [];
    tier.expire(14, (...end) => ended.push(end));
    expect(ended).toEqual([]);
    tier.expire(15, (...end) => ended.push(end));
    expect(ended).toEqual([[free, 80]]);
    expect([tier.priorityOf(free), tier.priorityOf(held)]).toEqual([35, 80]);
  });

  test("[KV36] time runs on under a pin, and stops under a holder", () => {
    const { tier } = hostTier();
    const [one, other] = [tier.take(), tier.take()];
    if (one === null || other === null) throw new Error("No block");
    for (const block of [one, other]) {
      tier.publish(block);
      tier.claim(block, { priority: 80, durationMs: 5 });
      tier.release(block, 0);
      tier.pin(block);
    }
    tier.retain(other);
    tier.expire(5, () => {});
    expect([one, other].map((block) => tier.priorityOf(block))).toEqual([35, 80]);
    tier.release(other, 6);
    tier.release(other, 7);
    expect(tier.leaseOf(other).deadlineMs).toBe(12);
    tier.release(one, 7);
    expect(tier.leaseOf(one)).toEqual({ priority: 35, durationMs: 5, deadlineMs: null });
  });

  test("[KV41] a demoted block is the next to go", () => {
    const { tier } = hostTier();
    const blocks = cached(tier, 4);
    const last = blocks.at(-1);
    if (last === undefined) throw new Error("No block");
    tier.demote(last);
    expect(tier.priorityOf(last)).toBe(0);
    expect(tier.take()).toBe(last);
  });

  test("[KV14] frees what is cached, and forgets how long it was to stay", () => {
    const { tier } = hostTier();
    const block = tier.take();
    if (block === null) throw new Error("No block");
    tier.publish(block);
    tier.claim(block, { priority: 80, durationMs: 5 });
    tier.release(block, 0);
    tier.freeCached();
    expect(tier.counts()).toEqual({ free: 4, held: 0, cached: 0, total: 4 });
    tier.expire(100, () => expect.unreachable());
  });
});
