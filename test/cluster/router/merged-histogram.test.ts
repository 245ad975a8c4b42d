import { Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { MergedHistogram } from "../../../src/cluster/router/merged-histogram.ts";

const BOUNDS = [0.1, 0.5, 2];
const COMMON = { name: "times_seconds", help: "Times." };

test("[CL266] a merged histogram reads as one that saw all values itself", async () => {
  const [own, all] = [new Registry(), new Registry()];
  const merged = new MergedHistogram(own, {
    ...{ ...COMMON, bounds: BOUNDS },
    // 0.0625, 0.25, 0.375 and 9.
    more: () => ({ counts: [1, 2, 0, 1], sum: 9.6875 }),
  });
  const expected = new Histogram({ ...COMMON, buckets: BOUNDS, registers: [all] });
  for (const value of [0.0625, 0.25, 0.375, 9, 0.0625, 0.5, 2, 4]) expected.observe(value);
  for (const value of [0.0625, 0.5, 2, 4]) merged.observe(value);
  expect(await own.metrics()).toBe(await all.metrics());
});

test("[CL266] it is empty at first, and again once what was counted here was reset", async () => {
  const [own, all] = [new Registry(), new Registry()];
  const nothing = { counts: [], sum: 0 };
  const merged = new MergedHistogram(own, { ...COMMON, bounds: BOUNDS, more: () => nothing });
  new Histogram({ ...COMMON, buckets: BOUNDS, registers: [all] });
  expect(await own.metrics()).toBe(await all.metrics());
  merged.observe(1);
  own.resetMetrics();
  expect(await own.metrics()).toBe(await all.metrics());
  expect(await own.getMetricsAsJSON()).toMatchObject([{ name: "times_seconds" }]);
});
