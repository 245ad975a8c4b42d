/** Runs beside what a GPU allows. */
import { expect, test } from "vitest";
import { againstLimits, type GpuLimits } from "../../../src/cli/bench/gpu-limits.ts";

const shape = {
  ...{ hidden: 4096, layers: 32, heads: 32, kvHeads: 8, headDim: 128 },
  ...{ feedForward: 14_336, vocabulary: 128_256, qkvRows: 6144 },
};
const known: GpuLimits = {
  gpu: "a GPU",
  shape,
  ceilings: { copyGBs: 4270, bf16TFLOPs: 778 },
};
const run = {
  sizes: { prompts: 1, inputLength: 128, outputLength: 2 },
  seconds: 1,
  weightFormat: "bf16",
  kvFormat: "bf16",
};

test("a run's limit is known where both speeds are", () => {
  const { limitSeconds, ratio } = againstLimits(known, run);
  expect(limitSeconds).toBeGreaterThan(0);
  expect(ratio).toBe(limitSeconds);
});

test("a run has no limit where the GEMM speed is unknown; the report says why", () => {
  const ceilings = { copyGBs: 4270, bf16TFLOPs: null, bf16Unknown: "no cuBLASLt" };
  expect(againstLimits({ ...known, ceilings }, run)).toEqual({
    ...{ gpu: "a GPU", ceilings, limitSeconds: null, ratio: null },
  });
});

test("a run in other formats, or of a model that is not counted, has no limit", () => {
  expect(againstLimits(known, { ...run, weightFormat: "i8" }).limitSeconds).toBeNull();
  expect(againstLimits({ ...known, shape: null }, run).limitSeconds).toBeNull();
});
