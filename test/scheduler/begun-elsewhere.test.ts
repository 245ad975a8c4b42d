/** Sequences that begin with tokens which another engine sampled. */
import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import { endWithin, NO_STOP_RULES, SequenceGroup } from "#scheduler";
import { counts, distinct, Harness, type HarnessOptions, idOf, sequences } from "./harness.ts";

const prompt = distinct(1, 40);

/** A request of which another engine sampled so many tokens of each sequence. */
function begun(harness: Harness, generated: readonly number[], maxTokens = 30): SequenceGroup {
  const arrivalMs = 0;
  const group = new SequenceGroup({
    requestId: "moved",
    sequences: generated.map((count, place) =>
      harness.make(prompt, {
        ...{ arrivalMs, stop: { maxTokens } },
        generatedTokenIds: distinct(50 + place, count),
      }),
    ),
  });
  harness.scheduler.add(group);
  harness.scheduler.audit();
  return group;
}

describe("[SC32] sequences begun elsewhere", () => {
  test("prompt and tokens are computed in one step, and the next one is sampled", () => {
    const harness = new Harness();
    const [sequence] = begun(harness, [10]).sequences;
    const plan = harness.step();
    expect(counts(plan)).toEqual([50]);
    expect(plan.items[0]?.samples).toBe(true);
    expect(sequence).toMatchObject({ generatedTokens: 11, promptLength: 40, cachedTokens: 0 });
    expect(counts(harness.step())).toEqual([1]);
    harness.drain();
    expect(sequence?.generatedTokens).toBe(30);
  });

  test("none waits for a fork: each computes its own tokens, and shares the prompt's blocks", () => {
    const harness = new Harness({ blockTokens: 8 });
    const { sequences: all } = begun(harness, [3, 0, 20]);
    const plan = harness.step();
    expect(sequences(plan)).toEqual(all);
    // The prompt's five blocks are computed once; the last token of a prompt always is.
    expect(counts(plan)).toEqual([43, 8, 20]);
    harness.drain();
    expect(all.map(({ generatedTokens }) => generatedTokens)).toEqual([30, 30, 30]);
    expect(harness.scheduler.stats()).toMatchObject({ heldBlocks: 0, forks: 0 });
  });

  test("found tokens count as the prompt's only up to its end", () => {
    const harness = new Harness({ blockTokens: 8 });
    const first = harness.add([...prompt, ...distinct(50, 24)], { stop: { maxTokens: 1 } });
    harness.drain();
    expect(first.finished).toBe(true);
    const [sequence] = begun(harness, [24]).sequences;
    const plan = harness.step();
    expect(plan.items[0]?.start).toBeGreaterThan(40);
    expect(sequence?.cachedTokens).toBe(40);
  });

  test.for([
    { name: "chunks", options: { stepTokensMax: 16 } },
    { name: "overlapped steps", options: { overlapSteps: true } },
    { name: "recompute", options: { blocks: 16, blockTokens: 8, preemption: "recompute" } },
    { name: "swap", options: { blocks: 16, blockTokens: 8, preemption: "swap", hostBlocks: 64 } },
    { name: "few seats", options: { runningSequencesMax: 2 } },
    { name: "no prefixes", options: { prefixCaching: false } },
  ] as { name: string; options: HarnessOptions }[])("with $name all end", ({ options }) => {
    const harness = new Harness(options);
    const { sequences: all } = begun(harness, [3, 0, 20]);
    const other = harness.add(distinct(2, 30), { stop: { maxTokens: 30 } });
    harness.drain();
    expect([...all, other].map(({ generatedTokens }) => generatedTokens)).toEqual([30, 30, 30, 30]);
    expect(harness.scheduler.stats().heldBlocks).toBe(0);
  });

  test("an aborted one leaves the others as they are", () => {
    const harness = new Harness();
    const { sequences: all } = begun(harness, [3, 5, 20]);
    harness.scheduler.abort(idOf(all[0]));
    harness.scheduler.audit();
    harness.drain();
    expect(all.map(({ generatedTokens }) => generatedTokens)).toEqual([3, 30, 30]);
  });

  test("tokens count for the length that must fit", () => {
    const harness = new Harness({ modelContext: 64 });
    expect(() => begun(harness, [3, 24])).toThrow(EngineError);
    const [sequence] = begun(harness, [23]).sequences;
    harness.drain();
    expect(sequence?.tokens.length).toBe(64);
  });
});

test("[SC32] the first token that ends a sequence is found", () => {
  const rules = { ...NO_STOP_RULES, eosTokenIds: new Set([9]), minTokens: 2, maxTokens: 5 };
  const ended = (...tokens: number[]) =>
    endWithin(Int32Array.of(9, 9), Int32Array.from(tokens), rules, 100);
  expect(ended()).toBeNull();
  expect(ended(9, 1, 1, 1)).toBeNull();
  expect(ended(9, 9, 1)).toBe(2);
  expect(ended(1, 1, 1, 1, 1, 1)).toBe(5);
  expect(endWithin(Int32Array.of(9, 9), Int32Array.of(1, 1, 1), rules, 5)).toBe(3);
});
