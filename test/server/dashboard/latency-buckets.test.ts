import { expect, test } from "vitest";
import {
  bucketOf,
  LatencyWindow,
  secondsOf,
} from "../../../src/server/dashboard/latency-buckets.ts";

test("a latency is told within 4.5 % by its bucket", () => {
  for (let seconds = 2e-5; seconds < 100; seconds *= 1.037) {
    expect(Math.abs(secondsOf(bucketOf(seconds)) / seconds - 1)).toBeLessThan(0.0453);
  }
});

test("latencies that are none, or endless, have a bucket, too", () => {
  for (const seconds of [0, -1, Number.NaN]) expect(bucketOf(seconds)).toBe(0);
  expect(bucketOf(Number.POSITIVE_INFINITY)).toBe(bucketOf(1e9));
});

test("quantiles are those of the last ticks alone", () => {
  const window = new LatencyWindow(2);
  expect(window.quantiles()).toEqual({ count: 0, p50: null, p99: null });
  const slow = bucketOf(1);
  const fast = bucketOf(0.01);
  window.add([slow, 99, fast, 1]);
  expect(window.quantiles()).toMatchObject({ count: 100, p50: secondsOf(slow) });
  window.turn();
  window.add([fast, 900]);
  expect(window.quantiles()).toEqual({ count: 1000, p50: secondsOf(fast), p99: secondsOf(slow) });
  window.turn();
  expect(window.quantiles().count).toBe(1000);
  window.turn();
  expect(window.quantiles()).toMatchObject({ count: 900, p99: secondsOf(fast) });
  window.turn();
  expect(window.quantiles()).toEqual({ count: 0, p50: null, p99: null });
});
