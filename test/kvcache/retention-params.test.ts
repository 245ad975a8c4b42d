import { expect, test } from "vitest";
import { EngineError } from "#base";
import { parseRetention } from "#kvcache";

test("what is left out is worth 35, for ever", () => {
  expect(parseRetention({})).toEqual({ ranges: [], decodePriority: 35, decodeDurationMs: null });
  expect(parseRetention({ ranges: [{ start: 8 }] }).ranges).toEqual([
    { start: 8, end: null, priority: 35, durationMs: null },
  ]);
});

test("T 1: ranges come back in order", () => {
  const text =
    '{"ranges": [{"start": 9, "priority": 1}, {"start": 0, "end": 9, "durationMs": 30}], ' +
    '"decodePriority": 4, "decodeDurationMs": 5}';
  expect(parseRetention(JSON.parse(text))).toEqual({
    ranges: [
      { start: 0, end: 9, priority: 35, durationMs: 30 },
      { start: 9, end: null, priority: 1, durationMs: null },
    ],
    decodePriority: 4,
    decodeDurationMs: 5,
  });
});

test.for([
  [7, "retention", "must be an object"],
  [{ range: [] }, "retention.range", "is not a known field"],
  [{ ranges: [{ start: "0" }] }, "retention.ranges.0.start", "must be a number"],
  [{ ranges: [{ start: 4, end: 4 }] }, "retention.ranges.0.end", "above the range's start (4)"],
  [{ ranges: [{ start: 0 }, { start: 4 }] }, "retention.ranges.0.end", "must be at most 4"],
  [{ decodePriority: 101 }, "retention.decodePriority", "from 0 to 100, current value is 101"],
] as const)("%j is refused by the field's name", ([options, param, text]) => {
  const parse = () => parseRetention(options);
  expect(parse).toThrow(EngineError);
  expect(parse).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT", param }));
  expect(parse).toThrow(text);
});
