import { expect, test } from "vitest";
import { StepBins } from "../../../src/server/dashboard/step-bins.ts";

const NOTHING = {
  ...{ computedPromptTokens: 0, draftedTokens: 0, acceptedTokens: 0, generatedTokens: 0 },
};

test("a step's tokens are told by what they were computed for", () => {
  const bins = new StepBins({ ...NOTHING, computedPromptTokens: 100 });
  const counts = { ...NOTHING, computedPromptTokens: 130, draftedTokens: 8, acceptedTokens: 5 };
  const report = { stepTokens: 42, sequences: 5, seconds: 0.02, planSeconds: 0.001 };
  bins.add(report, counts, 1000);
  expect(bins.take()).toEqual([
    {
      ...{ endMs: 1000, steps: 1, seconds: 0.02, hostSeconds: 0.001, longestSeconds: 0.02 },
      ...{ prefill: 30, drafted: 8, decode: 4, accepted: 5, sequences: 5 },
    },
  ]);
  expect(bins.take()).toEqual([]);
});

test.for([47, 48, 49, 1000, 4096])("%i steps are 48 bins at most, and none is lost", (steps) => {
  const bins = new StepBins(NOTHING);
  for (let step = 1; step <= steps; step++) {
    const report = { stepTokens: 2, sequences: 2, seconds: 0.001, planSeconds: 0.0001 };
    bins.add(report, { ...NOTHING, generatedTokens: 2 * step }, step);
  }
  const taken = bins.take();
  expect(taken.length).toBeLessThanOrEqual(48);
  expect(taken.reduce((sum, bin) => sum + bin.steps, 0)).toBe(steps);
  expect(taken.reduce((sum, bin) => sum + bin.decode, 0)).toBe(2 * steps);
  const ends = taken.map(({ endMs }) => endMs);
  expect(ends).toEqual([...ends].sort((left, right) => left - right));
  expect(ends.at(-1)).toBe(steps);
});
