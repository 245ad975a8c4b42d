import { expect, test } from "vitest";
import { forbiddenNext } from "../../src/sampling/bad-word-matcher.ts";

test("a word of one token is always forbidden", () => {
  expect(forbiddenNext([], [[7]])).toEqual([7]);
  expect(forbiddenNext([1, 2], [[7], [8]])).toEqual([7, 8]);
});

test("the last token of a longer word is forbidden after all the others", () => {
  const words = [
    [1, 2, 3],
    [2, 4],
  ];
  expect(forbiddenNext([1], words)).toEqual([]);
  expect(forbiddenNext([1, 2], words)).toEqual([3, 4]);
  expect(forbiddenNext([1, 2, 5], words)).toEqual([]);
});
