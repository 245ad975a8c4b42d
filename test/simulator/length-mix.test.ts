import { describe, expect, test } from "vitest";
import { drawLengths, LENGTH_MIXES, type RequestLengths, withSpread } from "#simulator";

const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
const prompts = (requests: readonly RequestLengths[]) =>
  requests.map(({ promptTokens }) => promptTokens);
const outputs = (requests: readonly RequestLengths[]) =>
  requests.map(({ outputTokens }) => outputTokens);
const spreadOf = (values: readonly number[]) => {
  const logs = values.map(Math.log);
  const middle = mean(logs);
  return Math.sqrt(mean(logs.map((log) => (log - middle) ** 2)));
};

describe("drawLengths", () => {
  test.for(["shareGpt", "alpaca"] as const)("gives %s the means of the paper", (name) => {
    const mix = LENGTH_MIXES[name];
    for (const seed of [1, 2, 3]) {
      const requests = drawLengths(mix, { seed, count: 500 });
      expect(mean(prompts(requests))).toBeCloseTo(mix.prompt.meanTokens, 1);
      expect(mean(outputs(requests))).toBeCloseTo(mix.output.meanTokens, 1);
    }
  });

  test("samples whole lengths from 1 up to the most", () => {
    const mix = withSpread(LENGTH_MIXES.shareGpt, 3);
    for (const { promptTokens, outputTokens } of drawLengths(mix, { seed: 1, count: 1000 })) {
      expect(Number.isInteger(promptTokens) && Number.isInteger(outputTokens)).toBe(true);
      expect(Math.min(promptTokens, outputTokens)).toBeGreaterThanOrEqual(1);
      expect(promptTokens).toBeLessThanOrEqual(mix.prompt.tokensMax);
      expect(outputTokens).toBeLessThanOrEqual(mix.output.tokensMax);
    }
  });

  test("spreads lengths as asked where the cut is far away", () => {
    const { alpaca } = LENGTH_MIXES;
    const narrow = drawLengths(alpaca, { seed: 5, count: 4000 });
    expect(spreadOf(prompts(narrow))).toBeCloseTo(alpaca.prompt.spread, 1);
    const wide = drawLengths(withSpread(alpaca, 1.5), { seed: 5, count: 4000 });
    expect(spreadOf(prompts(wide))).toBeCloseTo(1.5 * alpaca.prompt.spread, 1);
  });

  test("repeats itself for a seed, and only for it", () => {
    const draw = (seed: number) => drawLengths(LENGTH_MIXES.shareGpt, { seed, count: 20 });
    expect(draw(7)).toEqual(draw(7));
    expect(draw(7)).not.toEqual(draw(8));
  });

  test("prompts and outputs of one request have nothing to do with each other", () => {
    const requests = drawLengths(LENGTH_MIXES.shareGpt, { seed: 1, count: 4000 });
    const logs = (values: readonly number[]) => values.map(Math.log);
    const [a, b] = [logs(prompts(requests)), logs(outputs(requests))];
    const [meanA, meanB] = [mean(a), mean(b)];
    const covariance = mean(a.map((value, at) => (value - meanA) * ((b[at] ?? 0) - meanB)));
    const correlation = covariance / (spreadOf(prompts(requests)) * spreadOf(outputs(requests)));
    expect(Math.abs(correlation)).toBeLessThan(0.05);
  });
});
