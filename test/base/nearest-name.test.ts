import { expect, test } from "vitest";
import { nearestName } from "#base";

const names = ["port", "host", "kv-pool-bytes", "kv-cache-dtype", "step-tokens-max"];

test.for<[string, string | null]>([
  ["prot", "port"],
  ["kv-pool-byte", "kv-pool-bytes"],
  ["kvPoolBytes", "kv-pool-bytes"],
  ["KV_POOL_BYTES", "kv-pool-bytes"],
  ["--port", "port"],
  ["steptokensmax", "step-tokens-max"],
  ["temperature", null],
  ["", null],
  ["x".repeat(100_000), null],
])("%j is meant to be %s", ([text, name]) => {
  expect(nearestName(text.slice(0, 100_000), names)).toBe(name);
});

test("without names there is none", () => {
  expect(nearestName("port", [])).toBeNull();
});
