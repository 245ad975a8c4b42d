import { describe, expect, test } from "vitest";
import {
  COST_PRESETS,
  type CostPoint,
  costPreset,
  fitCost,
  isCostPreset,
  loadMs,
  presetFit,
  presetPoints,
  StepMeter,
  type StepSize,
  speededUp,
  stepMs,
} from "#engine/mock";

const SIZE: StepSize = {
  ...{ steps: 3, promptTokens: 900, promptPairs: 70_000, decoding: 40, contextTokens: 80_000 },
};

describe("a cost model", () => {
  test.for(COST_PRESETS)("[CL102] %s: more of anything never takes less time", (name) => {
    const { step } = costPreset(name);
    expect(Object.values(step).every((factor) => factor >= 0)).toBe(true);
    for (const term of Object.keys(SIZE) as (keyof StepSize)[]) {
      const more = { ...SIZE, [term]: SIZE[term] * 2 };
      expect(stepMs(step, more)).toBeGreaterThanOrEqual(stepMs(step, SIZE));
    }
  });

  test.for(COST_PRESETS)("[CL102] %s: is within 3 %% of every point that was measured", (name) => {
    const { ratios } = presetFit(name);
    expect(ratios).toHaveLength(presetPoints(name).length);
    for (const ratio of ratios) expect(Math.abs(ratio - 1)).toBeLessThan(0.03);
    expect(isCostPreset(name)).toBe(true);
  });

  test("S times as fast in every part", () => {
    const model = costPreset("h200-8b");
    const fast = speededUp(model, 10);
    expect(stepMs(fast.step, SIZE)).toBeCloseTo(stepMs(model.step, SIZE) / 10, 9);
    for (const level of [1, 2] as const) {
      expect(loadMs(fast, level, 512)).toBeCloseTo(loadMs(model, level, 512) / 10, 9);
    }
    expect(loadMs(model, 2, 512)).toBeGreaterThan(loadMs(model, 1, 512));
  });

  test("a meter adds prompts and decoding sequences apart", () => {
    const meter = new StepMeter();
    expect(meter.size.steps).toBe(0);
    meter.add(0, 4);
    meter.add(10, 2);
    meter.add(99, 1);
    meter.add(0, 0);
    expect(meter.size).toEqual({
      ...{ steps: 1, promptTokens: 6, promptPairs: 10 + 20 + 3, decoding: 1, contextTokens: 100 },
    });
    meter.clear();
    expect(meter.size.promptPairs).toBe(0);
  });
});

describe("a fit", () => {
  const points = (cost: Parameters<typeof stepMs>[0]): CostPoint[] =>
    [1, 2, 3, 5, 8, 13, 21, 34].map((scale, place) => {
      const size: StepSize = {
        ...{ steps: 1, promptTokens: (place % 3) * 100, promptPairs: scale * 1000 * (place % 2) },
        ...{ decoding: scale, contextTokens: scale * scale * 50 },
      };
      return { ...size, ms: stepMs(cost, size) };
    });

  test("finds the factors that made the points", () => {
    const cost = {
      ...{ stepMs: 4, promptTokenMs: 0.02, promptPairMs: 1e-6, decodingMs: 0.015 },
      contextTokenMs: 3e-5,
    };
    const fit = fitCost(points(cost));
    for (const [name, factor] of Object.entries(cost)) {
      expect(fit.cost[name as keyof typeof cost] / factor).toBeCloseTo(1, 5);
    }
  });

  test("[CL102] has no factor below zero, also where the points ask for one", () => {
    const bent = points({
      ...{ stepMs: 4, promptTokenMs: -0.01, promptPairMs: 0, decodingMs: 0.1 },
      contextTokenMs: 0,
    });
    const { cost } = fitCost(bent);
    expect(Object.values(cost).every((factor) => factor >= 0)).toBe(true);
    expect(cost.promptTokenMs).toBe(0);
  });

  test("of one point is that point", () => {
    const { ratios } = fitCost([{ ...SIZE, ms: 12 }]);
    expect(ratios[0]).toBeCloseTo(1, 9);
  });
});
