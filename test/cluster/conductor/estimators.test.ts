import { expect, test } from "vitest";
import { DecodeEstimator, PrefillEstimator, TransferEstimator } from "#cluster";

const prefill = (n: number, p: number) => 97.6 + 0.10433 * (n - p) + 9.228e-7 * (n * n - p * p);

test("[CO12] prompts' times are fitted to points and follow a machine that changes", () => {
  const points = [512, 4096, 32_768, 131_072].flatMap((promptTokens) =>
    [0, 0.5].map((part) => {
      const prefixTokens = part * promptTokens;
      return { promptTokens, prefixTokens, ms: prefill(promptTokens, prefixTokens) };
    }),
  );
  const estimator = new PrefillEstimator(points);
  expect(estimator.ms(20_000, 7000) / prefill(20_000, 7000)).toBeCloseTo(1, 1);
  expect(estimator.error()).toEqual({ samples: 0, meanError: 0, bias: 0 });
  for (let at = 0; at < 2000; at++) {
    const promptTokens = 1000 + ((at * 7919) % 60_000);
    const prefixTokens = at % 2 === 0 ? 0 : promptTokens / 2;
    estimator.measured({ promptTokens, prefixTokens, ms: 2 * prefill(promptTokens, prefixTokens) });
  }
  expect(estimator.ms(20_000, 7000) / prefill(20_000, 7000)).toBeCloseTo(2, 1);
  const { samples, meanError } = estimator.error();
  expect(samples).toBe(2000);
  expect(meanError).toBeLessThan(0.05);
});

test("[CO12] steps' times are fitted, none where nothing decodes, and nonsense is left out", () => {
  const stepMs = (sequences: number, tokens: number) => 26 + 0.15 * sequences + 3.6e-5 * tokens;
  const estimator = new DecodeEstimator();
  for (let at = 0; at < 2000; at++) {
    const sequences = 1 + (at % 64);
    const contextTokens = sequences * (500 + ((at * 31) % 9000));
    estimator.measured({ sequences, contextTokens, ms: stepMs(sequences, contextTokens) });
  }
  expect(estimator.ms(20, 100_000)).toBeCloseTo(stepMs(20, 100_000), 0);
  expect(estimator.ms(0, 0)).toBe(0);
  const before = estimator.coefficients;
  estimator.measured({ sequences: 3, contextTokens: 5, ms: Number.NaN });
  estimator.measured({ sequences: 3, contextTokens: 5, ms: -1 });
  expect(estimator.coefficients).toEqual(before);
});

test("[CO13] a transfer is as slow as the busier end", () => {
  const estimator = new TransferEstimator();
  const end = (flows: number) => ({ bytesPerMs: 1000, flows });
  const ms = (sender: number, receiver: number) =>
    estimator.ms({ bytes: 1e6, sender: end(sender), receiver: end(receiver) });
  expect(ms(0, 0)).toBeCloseTo(1001, 6);
  expect(ms(3, 0)).toBeCloseTo(4001, 6);
  expect(ms(1, 5)).toBeCloseTo(6001, 6);
  expect(estimator.ms({ bytes: 0, sender: end(0), receiver: end(0) })).toBe(0);
  for (let at = 0; at < 500; at++) {
    const plan = { bytes: 1e5 * (1 + (at % 9)), sender: end(at % 3), receiver: end(0) };
    estimator.measured(plan, 5 + (2 * plan.bytes * (1 + (at % 3))) / 1000);
  }
  expect(ms(0, 0) / 2005).toBeCloseTo(1, 1);
  expect(estimator.error().samples).toBe(500);
});
