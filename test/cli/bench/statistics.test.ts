import { expect, test } from "vitest";
import { speedUpOf } from "../../../src/cli/bench/statistics.ts";

test("a speed-up is that of the medians, with the range of its pairs", () => {
  expect(speedUpOf([1, 2, 1], [2, 3, 4])).toEqual({ speedUp: 3, speedUpRange: [1.5, 4] });
  expect(speedUpOf([2, 4, 2], [1, 3, 1])).toEqual({ speedUp: 0.5, speedUpRange: [0.5, 0.75] });
});

test("where pairs disagree on which is faster, or are fewer than three, there is no speed-up", () => {
  const within = speedUpOf([1, 1, 1, 1], [2, 2, 0.5, 2]);
  expect(within).toEqual({ speedUp: null, speedUpRange: [0.5, 2] });
  expect(speedUpOf([1, 1, 1], [1, 2, 2]).speedUp).toBeNull();
  expect(speedUpOf([1, 1], [4, 4])).toEqual({ speedUp: null, speedUpRange: [4, 4] });
});
