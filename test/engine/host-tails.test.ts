import { expect, test } from "vitest";
import { Drafting, type StepPolicy } from "../../src/engine/loop/drafting.ts";
import { HostTails } from "../../src/engine/loop/host-tails.ts";
import type { ComputedStep } from "../../src/engine/loop/step-pipeline.ts";
import { Harness } from "../scheduler/harness.ts";
import { lookupTask } from "./lookup-task.ts";

const PLAIN = { drafts: false, foresaw: false };

test("[SP42] a kind's tail is the median of its last seven, and kinds have their own", () => {
  const tails = new HostTails();
  expect(tails.of(PLAIN)).toBe(null);
  for (const ms of [1, 1, 50, 1, 2, 2, 2]) tails.record(PLAIN, ms);
  expect(tails.of(PLAIN)).toBe(2);
  for (let i = 0; i < 4; i++) tails.record(PLAIN, 3);
  expect(tails.of(PLAIN)).toBe(3);
  expect(tails.of({ ...PLAIN, drafts: true })).toBe(null);
  expect(tails.of({ ...PLAIN, foresaw: true })).toBe(null);
});

/** What a policy is told that steps cost; each is [drafted tokens, ms of the step, since the last]. */
function costsOf(steps: readonly (readonly [number, number, number | null])[]): readonly number[] {
  const harness = new Harness();
  const told: number[] = [];
  const policy: StepPolicy = {
    triesNetwork: false,
    record: (_, ms) => void told.push(ms),
    allot: (offers) => offers.map(() => 0),
    looks: () => false,
    drafts: (offers) => offers.map(() => 0),
  };
  const drafting = new Drafting({ scheduler: harness.scheduler, policy });
  const sequence = harness.add([1, 2, 3]);
  drafting.begun(lookupTask());
  drafting.grown({ sequence, tokenIds: [1], finished: false }, lookupTask());
  for (const [drafted, stepMs, sinceLastMs] of steps) {
    const item = { sequence, start: 3, count: 1, samples: true, drafted, admission: null };
    const result = { tokenIds: [1], logprobs: null, candidates: null, drafted };
    // The rest of a plan is not looked at.
    const plan = { items: [item], tokens: 1 + drafted, drafted } as unknown as ComputedStep["plan"];
    const rest = { admitted: { prompt: 0, cachedPrompt: 0 }, computedMs: 0, planMs: 0 };
    drafting.measure({ plan, outcome: { results: [result] }, stepMs, sinceLastMs, ...rest });
  }
  return told;
}

test("[SP42] what the host did behind a step with drafts is no cost of the plain one behind", () => {
  // 4 ms a plain step and 1 behind it, 8 ms a step with drafts and 3 behind it.
  const plain = [0, 4, 5] as const;
  const drafted = [3, 8, 9] as const;
  const behindDrafted = [0, 4, 7] as const;
  const rounds = [plain, plain, drafted, behindDrafted, drafted, behindDrafted, plain] as const;
  expect(costsOf(rounds)).toEqual([5, 5, 9, 5, 11, 5, 5]);
});

test("[SP42] where steps begin ahead, each costs the time since the last", () => {
  expect(
    costsOf([
      [0, 5, 5],
      [3, 9, 9],
      [0, 5, 5],
    ]),
  ).toEqual([5, 9, 5]);
});

test("[SP42] time in which an engine was idle is charged to no step", () => {
  expect(
    costsOf([
      [0, 4, null],
      [0, 4, 5],
      [0, 4, null],
      [0, 4, 5],
    ]),
  ).toEqual([5, 5]);
});
