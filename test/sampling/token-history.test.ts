import { expect, test } from "vitest";
import { TokenHistory } from "../../src/sampling/token-history.ts";

test("a token of the prompt counts from its first draw", () => {
  const history = new TokenHistory([5, 6, 5]);
  history.add(6);
  history.add(7);
  history.add(6);
  expect(Array.from(history.tokens)).toEqual([5, 6, 7]);
  expect(Array.from(history.counts)).toEqual([-1, 2, 1]);
});

test("thousands of tokens are each kept once", () => {
  const history = new TokenHistory(Array.from({ length: 1000 }, (_, i) => i));
  for (let i = 500; i < 2000; i++) history.add(i);
  expect(history.tokens).toHaveLength(2000);
  expect(history.counts.filter((count) => count === 1)).toHaveLength(1500);
});
