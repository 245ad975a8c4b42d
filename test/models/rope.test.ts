import { describe, expect, test } from "vitest";
import { type RopeScaling, type RopeSpec, ropeFrequencies, ropeTable } from "#models";

const rope = (scaling: RopeScaling, rotaryDim = 4): RopeSpec => ({
  ...{ kind: "rope", rotaryDim, theta: 10_000, scaling },
});

const frequencies = (spec: RopeSpec, contextTokens = 16): number[] =>
  Array.from(ropeFrequencies(spec, contextTokens), (value) => Number(value.toPrecision(6)));

test("a row holds cosines of falling frequencies, then their sines", () => {
  const table = ropeTable(rope({ kind: "default" }), { positions: 2 });
  const expected = [1, 1, 0, 0, Math.cos(1), Math.cos(0.01), Math.sin(1), Math.sin(0.01)];
  expected.forEach((value, i) => {
    expect(table[i]).toBeCloseTo(value, 6);
  });
});

test("angles are rounded to f32, as far out as contexts go", () => {
  const position = 131_071;
  const table = ropeTable(rope({ kind: "default" }), { positions: position + 1 });
  const angle = Math.fround(position * Math.fround(0.01));
  expect(table[position * 4 + 1]).toBe(Math.fround(Math.cos(angle)));
});

test("angles behind the model's context are exact, and change no frequency", () => {
  const position = 131_071;
  const table = ropeTable(rope({ kind: "default" }), {
    ...{ positions: position + 1, modelTokens: 1000 },
  });
  const exact = position * Math.fround(0.01);
  expect(table[position * 4 + 1]).toBe(Math.fround(Math.cos(exact)));
  const within = ropeTable(rope({ kind: "default" }), { positions: 1000 });
  expect(table.subarray(0, within.length)).toEqual(within);
});

describe("scalings", () => {
  test("linear divides every frequency", () => {
    expect(frequencies(rope({ kind: "linear", factor: 4 }))).toEqual([0.25, 0.0025]);
  });

  test("llama3 keeps fast waves, divides slow ones and blends between", () => {
    const scaling: RopeScaling = {
      kind: "llama3",
      factor: 8,
      lowFrequencyFactor: 1,
      highFrequencyFactor: 4,
      originalContextTokens: 100,
    };
    // Waves in 100 tokens: 15.9, 1.59, 0.159, 0.0159. The blend keeps (1.59 - 1) / 3.
    const kept = (10 / (2 * Math.PI) - 1) / 3;
    const blended = Number((0.1 * (kept + (1 - kept) / 8)).toPrecision(6));
    const expected = [1, blended, 0.00125, 0.000125];
    expect(frequencies(rope(scaling, 8))).toEqual(expected);
  });

  test("yarn ramps over dimensions", () => {
    const scaling: RopeScaling = {
      kind: "yarn",
      factor: 4,
      betaFast: 32,
      betaSlow: 1,
      truncate: true,
      ...{ attentionFactor: 2, originalContextTokens: 2048 },
    };
    // One turn in 2048 tokens is at dimension 2.51 of 8, 32 turns at 1.01: the ramp goes from 1 to 3.
    expect(frequencies(rope(scaling, 8))).toEqual([1, 0.1, 0.00625, 0.00025]);
    expect(ropeTable(rope(scaling, 8), { positions: 1 })[0]).toBe(2); // cosines are multiplied, too
  });

  test("longrope takes the long factors where sequences beyond the original context are served", () => {
    const scaling: RopeScaling = {
      kind: "longrope",
      shortFactors: [1, 2],
      longFactors: [4, 8],
      ...{ attentionFactor: 1.5, originalContextTokens: 16 },
    };
    expect(frequencies(rope(scaling), 16)).toEqual([1, 0.005]);
    expect(frequencies(rope(scaling), 17)).toEqual([0.25, 0.00125]);
    // However few positions there is memory for, or however many streaming reaches.
    for (const positions of [4, 16, 40]) {
      for (const [servedTokens, factor] of [
        [16, 1],
        [17, 4],
      ] as const) {
        const table = ropeTable(rope(scaling), { positions, modelTokens: 40, servedTokens });
        expect(table[4]).toBe(Math.fround(Math.fround(Math.cos(1 / factor)) * 1.5));
      }
    }
  });
});
