import { describe, expect, test } from "vitest";
import { KvCache } from "#kvcache";
import { SchedulerConfig } from "#scheduler";
import { windowBound } from "../../src/scheduler/window-bound.ts";
import { counts, distinct, Harness, preempted } from "./harness.ts";

describe("[SC26] windows", () => {
  test("V 5.1 (22): blocks are given back when the window has left them", () => {
    const harness = new Harness({ blockTokens: 2, window: { tokens: 4, sinkTokens: 0 } });
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
    const long = new Harness({ blocks: 20, window, stepTokensMax: 64, modelContext: 4096 });
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
    const harness = new Harness({ blocks: 8, blockTokens: 2, window, modelContext: 500 });
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
    const harness = new Harness({ blocks: 8, blockTokens: 4, window });
    harness.add(distinct(1, 100), { stop: { maxTokens: 1 } });
    // Seven blocks, less fifteen positions that a chunk sees before it.
    expect(harness.drain().map(counts)).toEqual([[13], [13], [13], [13], [13], [13], [13], [9]]);
  });

  test("two long ones share a small pool, one after the other or by turns", () => {
    const window = { tokens: 16, sinkTokens: 0 };
    const harness = new Harness({ blocks: 12, blockTokens: 4, window, stepTokensMax: 16 });
    const made = [1, 2].map((seed) => harness.add(distinct(seed, 90), { stop: { maxTokens: 60 } }));
    const steps = harness.drain();
    expect(made.map(({ generatedTokens }) => generatedTokens)).toEqual([60, 60]);
    expect(steps.flatMap(preempted).length).toBeLessThan(5);
  });

  test("forks let go of what they shared, each on its own", () => {
    const window = { tokens: 8, sinkTokens: 0 };
    const harness = new Harness({ blocks: 20, blockTokens: 2, window });
    const group = harness.addGroup(distinct(1, 9), 3, { stop: { maxTokens: 40 } });
    harness.drain();
    expect(group.sequences.map(({ generatedTokens }) => generatedTokens)).toEqual([40, 40, 40]);
    expect(harness.cache.poolStats().held).toBe(0);
  });

  test("there is no bound without a window, without chunks, or when the window does not fit", () => {
    const config = SchedulerConfig.parse({ stepTokensMax: 512 });
    const bound = (blocks: number, window: { tokens: number; sinkTokens: number } | null) =>
      windowBound(new KvCache({ blocks, blockTokens: 16, window }), config);
    expect(bound(100, null)).toBeNull();
    expect(bound(9, { tokens: 129, sinkTokens: 0 })).toBeNull();
    expect(bound(10, { tokens: 129, sinkTokens: 0 })).toEqual({ chunkTokens: 16, blocks: 10 });
    expect(bound(100, { tokens: 129, sinkTokens: 5 })).toEqual({ chunkTokens: 512, blocks: 42 });
    const whole = SchedulerConfig.parse({ chunkedPrefill: false });
    const cache = new KvCache({
      blocks: 99,
      blockTokens: 16,
      window: { tokens: 9, sinkTokens: 0 },
    });
    expect(windowBound(cache, whole)).toBeNull();
  });
});
