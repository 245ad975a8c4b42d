import { describe, expect, test } from "vitest";
import { gumbelAt, gumbelOf, philox, seedFrom, tokenWords } from "#base";
import { type ChiSquared, chiSquared, countsOf } from "../support/chi-squared.ts";
import { sized } from "../support/full.ts";

const last = 2 ** 32 - 1;
const words = [0, 1, 2, 77, 0x7fffffff, 0x80000000, 0xfffffff0, last - 1, last];

test("no word is without noise: both ends are finite", () => {
  expect(gumbelOf(0)).toBeCloseTo(-Math.log(33 * Math.LN2), 12);
  expect(gumbelOf(last)).toBeCloseTo(33 * Math.LN2, 9);
  const noise = words.map(gumbelOf);
  expect(noise).toEqual(noise.toSorted((a, b) => a - b));
});

test("noise is -ln(-ln u) to some units in the last place", () => {
  for (const word of [...words, ...philox([1, 2, 3, 4], seedFrom(5))]) {
    // Near 1 the logarithm of 1 - v keeps the digits.
    const exact = word < 2 ** 31;
    const u = (word + 0.5) / 2 ** 32;
    const v = (last - word + 0.5) / 2 ** 32;
    const wanted = -Math.log(exact ? -Math.log(u) : -Math.log1p(-v));
    expect(Math.abs(gumbelOf(word) - wanted)).toBeLessThan(4e-15 * Math.max(1, Math.abs(wanted)));
  }
});

test("noise has these bits on every platform", () => {
  const bits = (value: number) => Buffer.from(Float64Array.of(value).buffer).toString("hex");
  expect([0, 12345, 0x9e3779b9, last].map((word) => bits(gumbelOf(word)))).toMatchInlineSnapshot(`
    [
      "5d0b5aa13a0a09c0",
      "35093bb1cc5e04c0",
      "f9bb180d0568e73f",
      "becbf116b5df3640",
    ]
  `);
});

test("four tokens share a block of the generator, which no other number comes from", () => {
  const seed = seedFrom(0x1234_5678_9abc_def0n);
  const block = philox([7, 2, 1, 0], seed);
  expect(tokenWords(seed, 7, 2)).toEqual(block);
  const noise = [8, 9, 10, 11].map((token) => gumbelAt(seed, 7, token));
  expect(noise).toEqual(block.map(gumbelOf));
  expect(new Set(noise).size).toBe(4);
});

/** Noise of a token, for a seed and a position. */
type Noise = (seed: number, position: number, token: number) => number;

const law = [0.35, 0.25, 0.2, 0.1, 0.07, 0.03];
const draws = sized(6000, 100_000);

/** The token that wins the race. */
function drawn(noise: Noise, seed: number, position: number): number {
  const keys = law.map((weight, token) => Math.log(weight) + noise(seed, position, token));
  return keys.indexOf(Math.max(...keys));
}

/** Of tokens that shall be independent: pairs at neighbouring positions, and of neighbouring seeds. */
function checks(noise: Noise): Record<"positions" | "seeds", ChiSquared> {
  const pairs = new Map(
    law.flatMap((one, a) => law.map((other, b) => [`${a} ${b}`, one * other] as const)),
  );
  const of = (other: readonly [number, number]) =>
    countsOf(draws, (draw) => [
      drawn(noise, 2 * draw, 3),
      drawn(noise, 2 * draw + other[0], 3 + other[1]),
    ]);
  return {
    positions: chiSquared(of([0, 1]), pairs),
    seeds: chiSquared(of([1, 0]), pairs),
  };
}

const isGood = ({ statistic, limit }: ChiSquared): boolean => statistic < limit;

describe("tokens are independent", () => {
  const noise: Noise = (seed, position, token) => gumbelAt(seedFrom(seed), position, token);

  test("of positions and seeds, and have the law's frequencies", () => {
    const found = checks(noise);
    expect(isGood(found.positions)).toBe(true);
    expect(isGood(found.seeds)).toBe(true);
  });

  test.each([
    ["one lane for all tokens", (s, p, t) => noise(s, p, 4 * Math.floor(t / 4)), "positions"],
    ["one block for all tokens", (s, p, t) => noise(s, p, t % 4), "positions"],
    ["one number for a position", (s, p) => noise(s, p, 0), "positions"],
    ["no position", (s, _, t) => noise(s, 0, t), "positions"],
    ["pairs of positions alike", (s, p, t) => noise(s, (p + 1) >> 2, t), "positions"],
    ["pairs of seeds alike", (s, p, t) => noise(s >> 1, p, t), "seeds"],
    ["uniform noise", (s, p, t) => Math.exp(-Math.exp(-noise(s, p, t))), "positions"],
  ] as const satisfies readonly (readonly [string, Noise, "positions" | "seeds"])[])(
    "the check finds: %s",
    (_, wrong, where) => {
      const { statistic, limit } = checks(wrong)[where];
      expect(statistic).toBeGreaterThan(2 * limit);
    },
  );
});
