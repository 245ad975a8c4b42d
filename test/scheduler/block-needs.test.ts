import { describe, expect, test } from "vitest";
import { type CacheWindow, KvCache, type KvCacheShape } from "#kvcache";
import { SchedulerConfig } from "#scheduler";
import { BlockNeeds } from "../../src/scheduler/block-needs.ts";
import { counts, distinct, Harness, preempted } from "./harness.ts";

describe("[SC26] windows", () => {
  test("V 5.1 (22): blocks are given back when the window has left them", () => {
    const harness = new Harness({ blockTokens: 2, windows: [{ tokens: 4, sinkTokens: 0 }] });
    const sequence = harness.add(distinct(1, 4));
    const dropped = [4, 5, 6, 7].map((computed) => {
      harness.step();
      expect(sequence.computedTokens).toBe(computed);
      return sequence.blockTable.droppedTo;
    });
    expect(dropped).toEqual([0, 1, 1, 2]);
    expect(harness.cache.poolStats().held).toBe(4 - 2);
  });

  test("V 5.1 (21): a prompt longer than the pool runs where a window bounds it", () => {
    const window = { tokens: 128, sinkTokens: 0 };
    const long = new Harness({
      blocks: 20,
      windows: [window],
      stepTokensMax: 64,
      modelContext: 4096,
    });
    const sequence = long.add(distinct(1, 512), { stop: { maxTokens: 3000 } });
    let held = 0;
    while (!sequence.finished) {
      long.step();
      held = Math.max(held, long.cache.poolStats().held);
    }
    expect(sequence.generatedTokens).toBe(3000);
    expect(held).toBeLessThanOrEqual(13);
    expect(long.cache.poolStats().held).toBe(0);
    const whole = new Harness({ blocks: 5 });
    expect(() => whole.add(distinct(1, 256))).toThrow("must fit 80 tokens");
  });

  test("sinks stay held", () => {
    const window = { tokens: 8, sinkTokens: 3 };
    const harness = new Harness({
      blocks: 8,
      blockTokens: 2,
      windows: [window],
      modelContext: 500,
    });
    const sequence = harness.add(distinct(1, 30), { stop: { maxTokens: 50 } });
    for (let step = 0; step < 12; step++) harness.step();
    const { blockTable } = sequence;
    expect([blockTable.holds(0), blockTable.holds(1), blockTable.holds(2)]).toEqual([
      true,
      true,
      false,
    ]);
    harness.drain();
    expect(sequence.generatedTokens).toBe(50);
  });

  test("chunks are cut so that they fit the pool beside what they see", () => {
    const window = { tokens: 16, sinkTokens: 0 };
    const harness = new Harness({ blocks: 8, blockTokens: 4, windows: [window] });
    harness.add(distinct(1, 100), { stop: { maxTokens: 1 } });
    // Seven blocks, less fifteen positions that a chunk sees before it.
    expect(harness.drain().map(counts)).toEqual([[13], [13], [13], [13], [13], [13], [13], [9]]);
  });

  test("two long ones share a small pool, one after the other or by turns", () => {
    const window = { tokens: 16, sinkTokens: 0 };
    const harness = new Harness({
      blocks: 12,
      blockTokens: 4,
      windows: [window],
      stepTokensMax: 16,
    });
    const made = [1, 2].map((seed) => harness.add(distinct(seed, 90), { stop: { maxTokens: 60 } }));
    const steps = harness.drain();
    expect(made.map(({ generatedTokens }) => generatedTokens)).toEqual([60, 60]);
    expect(steps.flatMap(preempted).length).toBeLessThan(5);
  });

  test("forks let go of what they shared, each on its own", () => {
    const window = { tokens: 8, sinkTokens: 0 };
    const harness = new Harness({ blocks: 20, blockTokens: 2, windows: [window] });
    const group = harness.addGroup(distinct(1, 9), 3, { stop: { maxTokens: 40 } });
    harness.drain();
    expect(group.sequences.map(({ generatedTokens }) => generatedTokens)).toEqual([40, 40, 40]);
    expect(harness.cache.poolStats().held).toBe(0);
  });

  test("there is no bound without a window, without chunks, or when the window does not fit", () => {
    const config = SchedulerConfig.parse({ stepTokensMax: 512 });
    const bound = (blocks: number, ...windows: (CacheWindow | null)[]) =>
      boundOf({ blocks, blockTokens: 16, windows }, config);
    const none = { chunkTokens: Number.POSITIVE_INFINITY };
    expect(bound(100, null)).toEqual({ ...none, poolTokens: 1600, blocks: 62_500 });
    expect(bound(9, windowOf(129))).toEqual({ ...none, poolTokens: 144, blocks: 62_500 });
    const endless = { poolTokens: Number.POSITIVE_INFINITY };
    expect(bound(10, windowOf(129))).toEqual({ ...endless, chunkTokens: 16, blocks: 10 });
    expect(bound(100, windowOf(129, 5))).toEqual({ ...endless, chunkTokens: 512, blocks: 42 });
    const whole = SchedulerConfig.parse({ chunkedPrefill: false });
    const shape = { blocks: 99, blockTokens: 16, windows: [windowOf(9)] };
    expect(boundOf(shape, whole)).toEqual({ ...none, poolTokens: 1584, blocks: 62_500 });
  });

  test("groups with windows need so much at most, the others all that is computed", () => {
    const config = SchedulerConfig.parse({ stepTokensMax: 64, runningSequencesMax: 8 });
    const bound = (blocks: number, ...windows: (CacheWindow | null)[]) =>
      boundOf({ blocks, blockTokens: 16, windows }, config);
    // A window of 129 and a chunk of 64 hold 13 blocks of 16; the rest is for the other groups.
    const mixed = { chunkTokens: 64, blocks: 62_500 + 13 };
    expect(bound(100, null, windowOf(129))).toEqual({ ...mixed, poolTokens: 87 * 16 });
    expect(bound(100, null, windowOf(129), windowOf(129))).toEqual({
      ...{ ...mixed, blocks: 62_500 + 26 },
      poolTokens: 74 * 16,
    });
    expect(bound(100, windowOf(129), windowOf(65))).toEqual({
      ...{ chunkTokens: 64, poolTokens: Number.POSITIVE_INFINITY },
      blocks: 13 + 9,
    });
    // Short sequences need as many blocks in each group.
    expect(bound(20, null, windowOf(129))).toEqual({ ...mixed, poolTokens: 10 * 16 });
  });
});

function windowOf(tokens: number, sinkTokens = 0): CacheWindow {
  return { tokens, sinkTokens };
}

/** What a sequence of a million tokens needs. */
function boundOf(shape: KvCacheShape, config: SchedulerConfig) {
  const needs = new BlockNeeds(new KvCache(shape), config);
  const { chunkTokens, poolTokens } = needs;
  return { chunkTokens, poolTokens, blocks: needs.atOnce(1_000_000) };
}
