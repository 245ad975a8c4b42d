import { expect, test } from "vitest";
import { DecodeOutlook } from "../../../src/cluster/conductor/decode-outlook.ts";

test("[CO15] requests that will have come and gone by then are not counted", () => {
  const outlook = new DecodeOutlook();
  for (let at = 0; at < 20; at++) outlook.expect(1000 * (at + 1), 10);
  const at = (atMs: number, nowMs = 0) => outlook.at({ atMs, nowMs, decodeMs: 5000 });
  expect(at(5000)).toEqual({ requests: 5, tokens: 50 });
  expect(at(20_000)).toEqual({ requests: 5, tokens: 50 });
  // Those that are late join now, and none of them is over in a second.
  expect(at(11_000, 10_000).requests).toBe(11);
});

test("[CO15] what decodes longer than usual is not expected to stay", () => {
  const outlook = new DecodeOutlook();
  outlook.began(0, 10);
  outlook.began(4000, 20);
  expect(outlook.at({ atMs: 4500, nowMs: 4000, decodeMs: 5000 }).requests).toBe(2);
  expect(outlook.at({ atMs: 8000, nowMs: 4000, decodeMs: 5000 }).tokens).toBe(20);
  outlook.ended(4000, 20);
  expect(outlook.at({ atMs: 8000, nowMs: 4000, decodeMs: 5000 }).requests).toBe(0);
});
