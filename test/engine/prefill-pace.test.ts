import { expect, test } from "vitest";
import type { StepPlan } from "#scheduler";
import { PrefillPace } from "../../src/engine/loop/prefill-pace.ts";

/** A step of items with so many tokens each. */
function step(...counts: number[]): StepPlan {
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  return { items: counts.map((count) => ({ count })), tokens } as unknown as StepPlan;
}

test("nothing is bounded before prompts were timed, or without a bound", () => {
  const pace = new PrefillPace(50);
  pace.record(step(1, 1, 1), 100);
  pace.record(step(1, 15), 100);
  expect(pace.tokensMax).toBe(Number.POSITIVE_INFINITY);
  const free = new PrefillPace(null);
  free.record(step(100), 100);
  expect(free.tokensMax).toBe(Number.POSITIVE_INFINITY);
});

test("as many tokens as fit the time by what they took, the newest steps before older ones", () => {
  const pace = new PrefillPace(50);
  pace.record(step(512), 256);
  expect(pace.tokensMax).toBe(100);
  // Half as fast from now on.
  for (let round = 0; round < 20; round++) pace.record(step(1, 1, 48), 50);
  expect(pace.tokensMax).toBe(50);
});

test("prompts go on however slow they are", () => {
  const pace = new PrefillPace(50);
  pace.record(step(100), 100_000);
  expect(pace.tokensMax).toBe(32);
});
