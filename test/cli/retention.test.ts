import { expect, test } from "vitest";
import { retentionFromFlag } from "../../src/cli/retention.ts";

test("--retention is read in Python's or TypeScript's writing, and completed", () => {
  const whole = {
    ranges: [{ start: 0, end: 100, priority: 90, durationMs: 30_000 }],
    decodePriority: 20,
    decodeDurationMs: null,
  };
  expect(retentionFromFlag(whole)).toEqual(whole);
  const ranges = [{ start: 0, end: 100, priority: 90, duration_ms: 30_000 }];
  expect(retentionFromFlag({ ranges, decode_priority: 20 })).toEqual(whole);
  expect(retentionFromFlag(undefined)).toBeUndefined();
});

test.for<[unknown, string]>([
  [7, "Cannot use --retention: must be an object"],
  [{ range: [] }, "Cannot use --retention: range is not a known field"],
  [
    { ranges: [{ start: 0, priority: 101 }] },
    "Cannot use --retention: ranges.0.priority must be an integer from 0 to 100",
  ],
])("%j is refused by the flag's name", ([value, message]) => {
  expect(() => retentionFromFlag(value)).toThrow(message);
});
