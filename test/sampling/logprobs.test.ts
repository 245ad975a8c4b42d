import { expect, test } from "vitest";
import { logprobsOfRow, withRanks } from "../../src/sampling/logprobs.ts";

test("equal logits have equal ranks and come by rising id", () => {
  const found = logprobsOfRow(Float32Array.of(1, 2, 2, 0), 2, { kind: "top", count: 4 });
  expect(found.top.map(({ tokenId, rank }) => [tokenId, rank])).toEqual([
    [1, 1],
    [2, 1],
    [0, 3],
    [3, 4],
  ]);
  expect(found.rank).toBe(1);
});

test("probabilities sum to one, however large the logits", () => {
  const row = Float32Array.of(1000, 999, -1000, Number.NEGATIVE_INFINITY);
  const { top } = logprobsOfRow(row, 0, { kind: "top", count: 4 });
  const sum = top.reduce((total, { logprob }) => total + Math.exp(logprob), 0);
  expect(sum).toBeCloseTo(1, 6);
  expect(withRanks([])).toEqual([]);
});
