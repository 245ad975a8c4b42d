import { expect, test } from "vitest";
import { gumbelAt, seedFrom } from "#base";
import { ReferenceDevice } from "#devices";
import { floats, integers, words } from "./sources.ts";

const device = new ReferenceDevice();

interface Draw {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
}

/** Draws once per seed from 0 up. */
async function draws(logits: number[], options: Draw, seeds = 200): Promise<number[]> {
  const rows = Array.from({ length: seeds }, (_, row) => row);
  const repeated = (value: number) =>
    floats(
      device,
      [seeds],
      rows.map(() => value),
    );
  const out = device.allocate("i32", [seeds]);
  device.sample({
    ...{ count: seeds, out },
    logits: floats(
      device,
      [seeds, logits.length],
      rows.flatMap(() => logits),
    ),
    temperature: repeated(options.temperature ?? 1),
    topK: integers(
      device,
      rows.map(() => options.topK ?? 0),
    ),
    topP: repeated(options.topP ?? 1),
    minP: repeated(options.minP ?? 0),
    seeds: words(
      device,
      [seeds, 2],
      rows.flatMap((row) => [row, 0]),
    ),
    positions: integers(
      device,
      rows.map(() => 5),
    ),
  });
  return Array.from(await device.readI32(out));
}

const distinct = (tokens: readonly number[]): number[] => [...new Set(tokens)].sort();

test("temperature 0 takes the first largest logit", async () => {
  expect(distinct(await draws([1, 3, 3, 2], { temperature: 0 }))).toEqual([1]);
});

test("a sample is the token with the largest scaled logit + noise of (seed, position, token)", async () => {
  const logits = Array.from({ length: 9 }, (_, token) => Math.fround(Math.sin(token)));
  const tokens = await draws(logits, { temperature: 0.5 });
  const expected = tokens.map((_, seed) => {
    const keys = logits.map((logit, token) => 2 * logit + gumbelAt(seedFrom(seed), 5, token));
    return keys.indexOf(Math.max(...keys));
  });
  expect(tokens).toEqual(expected);
  expect(distinct(tokens).length).toBeGreaterThan(4);
});

test("the race is among the tokens that the filters keep, with the same noise", async () => {
  const logits = [0.4, 0.3, 0.2, 0.1].map(Math.log);
  const tokens = await draws(logits, { topK: 3, topP: 0.7 });
  const expected = tokens.map((_, seed) => {
    const keys = logits.map(
      (logit, token) => Math.fround(logit) + gumbelAt(seedFrom(seed), 5, token),
    );
    return keys.indexOf(Math.max(...keys.slice(0, 2)));
  });
  expect(tokens).toEqual(expected);
});

test("temperature sharpens", async () => {
  const share = async (temperature: number) =>
    (await draws([0, 1], { temperature })).filter((token) => token === 1).length / 200;
  expect(await share(0.25)).toBeGreaterThan(0.95);
  expect(await share(2)).toBeLessThan(0.75);
});

test("top-k keeps the k-th largest and all that equal it", async () => {
  expect(distinct(await draws([0, 1, 0.9, 0.9], { topK: 2 }))).toEqual([1, 2, 3]);
  expect(distinct(await draws([0, 1, 0.9, 0.8], { topK: 2 }))).toEqual([1, 2]);
});

test("top-p keeps the token that reaches p, and of equals the lower id", async () => {
  const halves = [0, 0].map(() => Math.log(0.25));
  expect(distinct(await draws([...halves, Math.log(0.5)], { topP: 0.5 }))).toEqual([2]);
  expect(distinct(await draws([...halves, Math.log(0.5)], { topP: 0.51 }))).toEqual([0, 2]);
});

test("min-p drops what is below its share of the likeliest", async () => {
  const logits = [1, 0.5, 0.2].map(Math.log);
  expect(distinct(await draws(logits, { minP: 0.3 }))).toEqual([0, 1]);
});

test("top-p works on what top-k and min-p left", async () => {
  const logits = [0.4, 0.3, 0.2, 0.1].map(Math.log);
  // Of the two that top-k leaves the first has 4/7: enough for 0.5.
  expect(distinct(await draws(logits, { topK: 2, topP: 0.5 }))).toEqual([0]);
});

test("a forbidden token is never sampled", async () => {
  const logits = [0, Number.NEGATIVE_INFINITY, 0];
  expect(distinct(await draws(logits, {}))).toEqual([0, 2]);
});

test("the same seed and position give the same token in another row of another batch", async () => {
  const all = await draws([0, 0.1, 0.2, 0.3], {}, 50);
  const few = await draws([0, 0.1, 0.2, 0.3], {}, 7);
  expect(all.slice(0, 7)).toEqual(few);
});
