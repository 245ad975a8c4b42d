import { describe, expect, test } from "vitest";
import type { Sequence } from "#scheduler";
import { distinct, Harness, type HarnessOptions } from "./harness.ts";

const said = (priority: number | null, durationMs: number | null = null) => ({
  priority,
  durationMs,
});

const small = (options: HarnessOptions = {}): Harness =>
  new Harness({ blocks: 20, blockTokens: 4, evictionPolicy: "priority", ...options });

const priorities = (harness: Harness, { blockTable }: Sequence): number[] =>
  Array.from({ length: blockTable.length }, (_, index) =>
    harness.cache.priorityOf(blockTable.get(index)),
  );

describe("[SC24] how long blocks are kept", () => {
  test("prompt blocks by their own word, the partly filled last one too, others by the decode's", () => {
    const harness = small();
    const retention = { prompt: [said(90), said(null), said(10)], decode: said(60) };
    const sequence = harness.add(distinct(1, 10), { retention });
    for (let step = 0; step < 4; step++) harness.step();
    expect(priorities(harness, sequence)).toEqual([90, 35, 10, 60]);
  });

  test("a claim of a stored block sets its priority anew, downwards too; one without a priority leaves it", () => {
    const harness = small();
    const prompt = distinct(1, 9);
    const start = (first: number | null) => {
      const prompts = [said(first), said(20)];
      const retention = { prompt: prompts, decode: said(35) };
      const sequence = harness.add(prompt, { retention, stop: { maxTokens: 1 } });
      const plan = harness.begin();
      const found = priorities(harness, sequence).slice(0, 2);
      harness.commit(plan);
      return found;
    };
    expect([start(80), start(null), start(5)]).toEqual([
      [80, 20],
      [80, 20],
      [5, 20],
    ]);
    harness.add(prompt);
    const plan = harness.step();
    expect(plan.items.map(({ sequence }) => priorities(harness, sequence).slice(0, 2))).toEqual([
      [5, 20],
    ]);
  });

  test("durations end on the engine's clock, at the start of a step", () => {
    const harness = small();
    const prompt = distinct(1, 9);
    const retention = { prompt: [said(80, 5), said(80)], decode: said(35) };
    const first = harness.add(prompt, { retention, stop: { maxTokens: 1 } });
    harness.begin();
    const [one, two] = [first.blockTable.get(0), first.blockTable.get(1)];
    harness.scheduler.abort(first.id);
    harness.nowMs += 5;
    harness.begin();
    expect([one, two].map((block) => harness.cache.priorityOf(block))).toEqual([35, 80]);
  });

  test("blocks that come back from host memory are worth what they were", () => {
    const harness = small({ blocks: 4, hostBlocks: 4, preemption: "swap" });
    const other = harness.add(distinct(1, 8));
    const retention = { prompt: [said(90), said(10)], decode: said(60) };
    const sequence = harness.add(distinct(2, 8), { retention });
    harness.step();
    harness.step();
    expect(sequence.blockTable.swapped).toBe(true);
    harness.scheduler.abort(other.id);
    harness.step();
    expect(priorities(harness, sequence)).toEqual([90, 10, 60]);
  });
});

test("[SC8] forks count as cached what their lead found, and once in the statistics", () => {
  const harness = small();
  const prompt = distinct(1, 9);
  harness.add(prompt, { stop: { maxTokens: 1 } });
  harness.step();
  const group = harness.addGroup(prompt, 3);
  harness.step();
  expect(group.sequences.map(({ cachedTokens }) => cachedTokens)).toEqual([8, 8, 8]);
  expect(harness.scheduler.stats()).toMatchObject({ prefixQueriedTokens: 18, prefixHitTokens: 8 });
});
