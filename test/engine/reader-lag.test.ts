import { expect, test } from "vitest";
import { ReaderLag, type Waiting } from "../../src/engine/caller/reader-lag.ts";

const item = (tokens: number, logprobs: number | null = null): Waiting => ({
  tokenIds: new Array<number>(tokens).fill(7),
  logprobs:
    logprobs === null
      ? null
      : Array.from({ length: tokens }, () => ({ top: new Array(logprobs).fill(null) })),
});

/** A lag, and what it told. */
function lagOf(tokensMax: number) {
  const told: boolean[] = [];
  const lag = new ReaderLag({ tokensMax, setPaused: (paused) => told.push(paused) });
  return { lag, told };
}

test("a pause is told once, when there are too many, and the end of it at half of them", () => {
  const { lag, told } = lagOf(4);
  for (let place = 0; place < 8; place++) lag.pushed(item(1));
  expect(told).toEqual([true]);
  for (let place = 0; place < 5; place++) lag.taken(item(1));
  expect(told).toEqual([true]);
  lag.taken(item(1));
  expect(told).toEqual([true, false]);
  lag.taken(item(2));
  expect(lag.paused).toBe(false);
});

test("a reader that keeps up is never told of", () => {
  const { lag, told } = lagOf(1);
  for (let place = 0; place < 100; place++) {
    lag.pushed(item(1));
    lag.taken(item(1));
  }
  expect(told).toEqual([]);
});

test("four log-probabilities count as a token", () => {
  const { lag, told } = lagOf(12);
  lag.pushed(item(2, 19)); // 2 tokens with 20 entries each
  expect(told).toEqual([]);
  lag.pushed(item(1, 0));
  expect(told).toEqual([true]);
});
