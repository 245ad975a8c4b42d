import { expect, test } from "vitest";
import type { DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

/** [temperature, top k, top p, min p] of the sequences, in turn. */
const draws = [
  [0, 0, 1, 0],
  [1, 0, 1, 0],
  [0.7, 5, 1, 0],
  [1.3, 0, 0.9, 0],
  [1, 0, 1, 0.05],
  [0.9, 20, 0.8, 0.01],
  [2, 1, 1, 0],
  [1, 0, 1e-6, 0],
] as const;

interface RaceCase {
  readonly count: number;
  readonly before: number;
  readonly perRow: number;
}

const cases: readonly RaceCase[] = [
  { count: 8, before: 1, perRow: 64 },
  { count: 9, before: 2, perRow: 33 },
  { count: 3, before: 3, perRow: 1 },
  { count: 8, before: 1, perRow: 256 },
];

/** Rows of falling log-probabilities, some tied, the last ones forbidden. */
function fallingRows(random: RandomNumbers, rows: number, perRow: number): Float32Array {
  const values = new Float32Array(rows * perRow);
  for (let row = 0; row < rows; row++) {
    const of = [...random.floats(perRow, 2)].map((value) => Math.round(8 * value) / 8 - 4);
    of.sort((a, b) => b - a);
    if (row % 3 === 2) of.fill(Number.NEGATIVE_INFINITY, Math.ceil(perRow / 2));
    values.set(of, row * perRow);
  }
  return values;
}

/** raceCandidates. */
export function raceContract(pair: () => DevicePair): void {
  const name = "raceCandidates: $count sequences, $before rows of $perRow candidates each";
  test.for(cases)(name, async ({ count, before, perRow }) => {
    const random = new RandomNumbers(count * perRow);
    const rows = count * before;
    const vocabulary = 300;
    const column = (index: 0 | 1 | 2 | 3) =>
      Array.from({ length: count }, (_, s) => draws[s % draws.length]?.[index] ?? 0);
    const ids = Array.from({ length: rows }, () => random.order(vocabulary).slice(0, perRow));
    const topTokens = pair().i32(ids.flat(), [rows, perRow]);
    const tokenMap = pair().i32(random.order(5000).slice(0, vocabulary));
    const [temperature, topK] = [pair().f32([count], column(0)), pair().i32(column(1))];
    const [topP, minP] = [pair().f32([count], column(2)), pair().f32([count], column(3))];
    const words = Array.from({ length: 2 * count }, () => random.below(2 ** 32));
    const seeds = pair().u32(words, [count, 2]);
    const positions = pair().i32(Array.from({ length: count }, (_, s) => 40 * s));
    for (const isMapped of [false, true]) {
      const before0 = fallingRows(random, rows, perRow);
      const topLogprobs = pair().f32([rows, perRow], before0);
      pair().run((device, pick) => {
        device.raceCandidates({
          ...{ count, before, topTokens: pick(topTokens), topLogprobs: pick(topLogprobs) },
          ...{ temperature: pick(temperature), topK: pick(topK), topP: pick(topP) },
          ...{ minP: pick(minP), seeds: pick(seeds), positions: pick(positions), ahead: 2 },
          ...(isMapped && { tokenMap: pick(tokenMap) }),
        });
      });
      await pair().expectClose(topLogprobs, { absolute: 0, relative: 0 });
      const found = await pair().tested.readF32(topLogprobs.tested);
      for (let row = 0; row < rows; row++) {
        const lags = found.subarray(row * perRow, (row + 1) * perRow);
        if (Math.floor(row / before) % draws.length === 0) {
          expect(lags).toEqual(before0.subarray(row * perRow, (row + 1) * perRow));
        } else expect(Math.max(...lags)).toBe(0);
      }
    }
  });

  test("raceCandidates: counts that do not fit are a bug", () => {
    const [ids, values] = [pair().i32(new Int32Array(300), [1, 300]), pair().f32([1, 300])];
    const [one, whole] = [pair().f32([1]), pair().i32([0])];
    const seeds = pair().u32([0, 0], [1, 2]);
    pair().run((device, pick) => {
      const input = {
        ...{ count: 1, before: 1, topTokens: pick(ids), topLogprobs: pick(values), ahead: 0 },
        ...{ temperature: pick(one), topK: pick(whole), topP: pick(one), minP: pick(one) },
        ...{ seeds: pick(seeds), positions: pick(whole) },
      };
      for (const wrong of [{}, { before: 0 }, { ahead: -1 }, { count: 0.5 }]) {
        expect(() => device.raceCandidates({ ...input, ...wrong })).toThrow("Cannot race");
      }
    });
  });
}
