import { expect, test } from "vitest";
import { attentionWeight, LoadCost, prefillWork, SpeedMeter } from "#kvcache";

/** LLaMA3-70B as the paper counts it: FLOPs of n tokens are layers * (4 n^2 d + 22 n d^2). */
const PAPER = { layers: 80, hidden: 8192, attention: 4, linear: 22, groups: 8, bytesPerValue: 2 };
const BLOCK_TOKENS = 512;

/** A cost of the paper's model on `flops` FLOP/s, with `bandwidth` bytes/s from host memory. */
function paperCost(flops: number, bandwidth: number): LoadCost {
  const { layers, hidden, attention, linear, groups, bytesPerValue } = PAPER;
  const cost = new LoadCost({
    attentionWeight: (2 * attention) / (linear * hidden),
    window: null,
    bytesPerBlock: (BLOCK_TOKENS * layers * 2 * hidden * bytesPerValue) / groups,
  });
  const n = 1000;
  const work = layers * (attention * n * n * hidden + linear * n * hidden * hidden);
  cost.recordPrefill(0, n, (work / flops) * 1000);
  cost.recordCopy(bandwidth, 1000);
  return cost;
}

/** The least bandwidth, in GB/s, at which loading the first `tokens` pays. */
function threshold(flops: number, tokens: number): number {
  let [low, high] = [0.01, 1000];
  while (high - low > 1e-4) {
    const middle = (low + high) / 2;
    const choice = { level: 1, blocks: tokens / BLOCK_TOKENS, start: 0, end: tokens } as const;
    if (paperCost(flops, middle * 1e9).loadPays(choice)) high = middle;
    else low = middle;
  }
  return high;
}

test.for([
  [1024, 6.77, 21.5],
  [8192, 5.86, 18.6],
  [131_072, 1.77, 5.6],
] as const)(
  "loading %i tokens pays from %d GB/s on 8 A800 and %d GB/s on 8 H800, formula (2) of Mooncake",
  ([tokens, a800, h800]) => {
    expect(threshold(8 * 312e12, tokens)).toBeCloseTo(a800, 1);
    expect(Math.abs(threshold(8 * 989e12, tokens) - h800)).toBeLessThan(0.06);
  },
);

const SHAPE = { attentionWeight: 0.001, window: null };

test("the work of a range is that of all before its end less that of all before its start", () => {
  const whole = prefillWork(0, 5000, SHAPE);
  expect(prefillWork(0, 1200, SHAPE) + prefillWork(1200, 5000, SHAPE)).toBeCloseTo(whole, 6);
  expect(whole).toBeCloseTo(5000 + 0.001 * (5000 ** 2 / 2), 6);
});

test("inside a window a token's work stops growing", () => {
  const windowed = { ...SHAPE, window: 100 };
  expect(prefillWork(0, 100, windowed)).toBe(prefillWork(0, 100, SHAPE));
  expect(prefillWork(100, 200, windowed)).toBeCloseTo(100 + 0.001 * 100 * 100, 9);
  expect(prefillWork(9000, 9100, windowed)).toBeCloseTo(prefillWork(100, 200, windowed), 9);
});

test("the attention weight of a decoder is its pair's multiply-adds over its parameters", () => {
  const decoder = { parameters: 59_055_800_320, layers: 80, heads: 64, headDim: 128 };
  // Causal attention: half of what the paper's formula, which counts the square, charges.
  const paper = (2 * PAPER.attention) / (PAPER.linear * PAPER.hidden);
  expect(attentionWeight(decoder) / paper).toBeCloseTo(0.5, 2);
});

test("loading pays as long as nothing was measured", () => {
  const cost = new LoadCost({ ...SHAPE, bytesPerBlock: 1000 });
  const choice = { level: 2, blocks: 4, start: 0, end: 64 } as const;
  expect(cost.loadPays(choice)).toBe(true);
  expect(cost.loadMs(4, 2)).toBeNull();
  expect(cost.recomputeMs(64)).toBeNull();
  cost.recordPrefill(0, 64, 1);
  expect(cost.loadPays(choice)).toBe(true);
  cost.recordRead(1000, 1000);
  expect(cost.loadPays(choice)).toBe(false);
});

test("what is on the device costs nothing, what is on disk is read and then copied", () => {
  const cost = new LoadCost({ ...SHAPE, bytesPerBlock: 1000 });
  cost.recordCopy(4000, 2);
  cost.recordRead(4000, 8);
  expect(cost.loadMs(4, 0)).toBe(0);
  expect(cost.loadMs(4, 1)).toBe(2);
  expect(cost.loadMs(4, 2)).toBe(10);
  expect(cost.swapMs(4)).toBe(4);
});

test("the farther back a range starts, the longer it takes to compute and the sooner a load pays", () => {
  const cost = new LoadCost({ ...SHAPE, bytesPerBlock: 1000 });
  cost.recordPrefill(0, 1000, 1000);
  cost.recordCopy(1000, 60);
  const choice = { level: 1, blocks: 1 } as const;
  expect(cost.loadPays({ ...choice, start: 0, end: 64 })).toBe(false);
  expect(cost.loadPays({ ...choice, start: 4096, end: 4160 })).toBe(true);
});

test("a disk that was slow once is measured again after many prefills", () => {
  const cost = new LoadCost({ ...SHAPE, bytesPerBlock: 1000 });
  const choice = { level: 2, blocks: 1, start: 0, end: 16 } as const;
  cost.recordRead(1, 10_000);
  cost.recordPrefill(0, 16, 1);
  expect(cost.loadPays(choice)).toBe(false);
  for (let prefill = 0; prefill < 1024; prefill++) cost.recordPrefill(0, 16, 1);
  expect(cost.loadPays(choice)).toBe(true);
});

test("a speed follows the latest measurements, and long ones count for more than short ones", () => {
  const meter = new SpeedMeter();
  expect(meter.perMs).toBeNull();
  meter.record(100, 0);
  expect(meter.perMs).toBeNull();
  meter.record(1000, 10);
  expect(meter.perMs).toBe(100);
  meter.record(1, 1);
  expect(meter.perMs).toBeGreaterThan(80);
  for (let i = 0; i < 200; i++) meter.record(3000, 10);
  expect(meter.perMs).toBeCloseTo(300, 1);
});
