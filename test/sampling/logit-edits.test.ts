import { describe, expect, test } from "vitest";
import { LogitEdits } from "../../src/sampling/logit-edits.ts";
import { PromptTokens, TokenHistory } from "../../src/sampling/token-history.ts";

function historyOf(prompt: readonly number[], drawn: readonly number[]): TokenHistory {
  const history = new TokenHistory(new PromptTokens(prompt));
  for (const token of drawn) history.add(token);
  return history;
}

describe("LogitEdits", () => {
  test("wishes for one token become one entry of its row", () => {
    const edits = new LogitEdits(2, 40);
    edits.beginRow();
    edits.count(historyOf([], [3, 3]));
    edits.bias(3, 1);
    edits.bias(3, -4);
    edits.beginRow();
    edits.count(historyOf([3], []));
    expect(Array.from(edits.starts)).toEqual([0, 1, 2]);
    expect(Array.from(edits.tokens)).toEqual([3, 3]);
    expect(Array.from(edits.biases)).toEqual([-3, 0]);
    expect(Array.from(edits.counts)).toEqual([2, -1]);
  });

  test("rows begin with nothing to change, also after a reset", () => {
    const edits = new LogitEdits(1, 40);
    edits.beginRow();
    edits.bias(39, Number.NEGATIVE_INFINITY);
    edits.penalize(2, 1, 1);
    edits.mask().fill(1);
    expect(edits.empty).toBe(false);
    edits.reset();
    edits.beginRow();
    expect(edits.empty).toBe(true);
    expect([edits.repetition[0], edits.frequency[0], edits.presence[0]]).toEqual([1, 0, 0]);
    expect(edits.allowedRows[0]).toBe(0);
    edits.bias(39, 1);
    expect(Array.from(edits.biases)).toEqual([1]);
  });

  test("entries outgrow their first room", () => {
    const edits = new LogitEdits(1, 5000);
    edits.beginRow();
    const seen = Int32Array.from({ length: 2500 }, (_, token) => token);
    edits.count(historyOf([...seen], []));
    for (let token = 0; token < 5000; token++) edits.bias(token, token);
    expect(edits.entries).toBe(5000);
    expect(edits.tokens.subarray(0, 2500)).toEqual(seen);
    expect(edits.counts.subarray(0, 2500)).toEqual(new Int32Array(2500).fill(-1));
    expect(edits.counts[2500]).toBe(0);
    expect(edits.biases[4999]).toBe(4999);
  });

  test("masks lie in their own row's words", () => {
    const edits = new LogitEdits(3, 40);
    edits.beginRow();
    edits.beginRow();
    edits.mask().set([5, 6]);
    expect(edits.wordsPerRow).toBe(2);
    expect(Array.from(edits.allowed)).toEqual([0, 0, 5, 6, 0, 0]);
    expect(Array.from(edits.allowedRows)).toEqual([0, 1, 0]);
    expect(edits.maskedRows).toBe(1);
  });
});
