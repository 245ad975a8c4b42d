import { expect, test } from "vitest";
import { PromptTokens, TokenHistory } from "../../src/sampling/token-history.ts";

/** Tokens and counts, as a row of edits gets them behind another row. */
function entriesOf(history: TokenHistory): { tokens: number[]; counts: number[] } {
  const start = 3;
  const [tokens, counts] = [0, 0].map(() => new Int32Array(start + history.length).fill(77));
  history.copyTo(tokens ?? new Int32Array(), counts ?? new Int32Array(), start);
  const behind = (values = new Int32Array()) => [...values.subarray(start)];
  expect(tokens?.subarray(0, start)).toEqual(new Int32Array(start).fill(77));
  return { tokens: behind(tokens), counts: behind(counts) };
}

test("a token of the prompt counts from its first sample", () => {
  const history = new TokenHistory(new PromptTokens([5, 6, 5]));
  expect(entriesOf(history)).toEqual({ tokens: [5, 6], counts: [-1, -1] });
  history.add(6);
  history.add(7);
  history.add(6);
  history.add(7);
  expect(entriesOf(history)).toEqual({ tokens: [5, 6, 7], counts: [-1, 2, 2] });
});

test("without a prompt the history has the sampled tokens", () => {
  const history = new TokenHistory(null);
  for (const token of [9, 3, 9]) history.add(token);
  expect(entriesOf(history)).toEqual({ tokens: [9, 3], counts: [2, 1] });
});

test("sequences of one prompt share it, and not their sampled tokens", () => {
  const prompt = new PromptTokens([1, 2, 3]);
  const [first, second] = [new TokenHistory(prompt), new TokenHistory(prompt)];
  first.add(2);
  first.add(8);
  second.add(9);
  expect(entriesOf(first)).toEqual({ tokens: [1, 2, 3, 8], counts: [-1, 1, -1, 1] });
  expect(entriesOf(second)).toEqual({ tokens: [1, 2, 3, 9], counts: [-1, -1, -1, 1] });
  expect([...prompt.tokens]).toEqual([1, 2, 3]);
});

test("thousands of tokens are each kept once", () => {
  const history = new TokenHistory(new PromptTokens(Array.from({ length: 1000 }, (_, i) => i)));
  for (let i = 500; i < 2000; i++) history.add(i);
  const { tokens, counts } = entriesOf(history);
  expect(tokens).toEqual(Array.from({ length: 2000 }, (_, i) => i));
  expect(counts.filter((count) => count === 1)).toHaveLength(1500);
});

test("tokens that were added last can be taken back, in any order", () => {
  const history = new TokenHistory(new PromptTokens([5, 6]));
  for (const token of [6, 7]) history.add(token);
  const before = entriesOf(history);
  for (const token of [7, 8, 5, 8]) history.add(token);
  for (const token of [8, 7, 8, 5]) history.remove(token);
  expect(entriesOf(history)).toEqual(before);
  history.add(9);
  expect(entriesOf(history)).toEqual({ tokens: [5, 6, 7, 9], counts: [-1, 1, 1, 1] });
});
