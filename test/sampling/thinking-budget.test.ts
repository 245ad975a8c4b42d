import { describe, expect, test } from "vitest";
import { promptThoughts, ThinkingBudget } from "../../src/sampling/thinking-budget.ts";

const marks = { startTokenIds: [90], endTokenIds: [91, 92] };

/** What is forced after each token, when forced tokens are drawn. */
function run(budget: number, prompt: number[], tokens: number[]): number[] {
  const thinking = new ThinkingBudget(budget, promptThoughts(marks, prompt));
  const generated: number[] = [];
  for (const token of tokens) {
    generated.push(thinking.forced() ?? token);
    thinking.accept(generated);
  }
  return generated;
}

describe("ThinkingBudget", () => {
  test("forces the end mark when the budget is used", () => {
    expect(run(2, [], [90, 1, 2, 3, 4, 5])).toEqual([90, 1, 2, 91, 92, 5]);
  });

  test("counts from a mark in the prompt", () => {
    expect(run(2, [7, 90, 8], [1, 2, 3, 4])).toEqual([1, 91, 92, 4]);
    expect(run(2, [90, 91, 92], [1, 2, 3])).toEqual([1, 2, 3]);
  });

  test("leaves alone sequences that think less, or not at all", () => {
    expect(run(5, [], [90, 1, 91, 92, 2, 3, 4, 5])).toEqual([90, 1, 91, 92, 2, 3, 4, 5]);
    expect(run(0, [], [1, 2, 3])).toEqual([1, 2, 3]);
  });

  test("a budget of none ends thoughts at once, each time", () => {
    expect(run(0, [], [90, 1, 2, 90, 3, 4])).toEqual([90, 91, 92, 90, 91, 92]);
  });
});
