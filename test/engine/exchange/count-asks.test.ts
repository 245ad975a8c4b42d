/** Questions how much of a prompt was cached where it is computed. */
import { expect, test } from "vitest";
import { encodeCount } from "../../../src/engine/exchange/block-ask.ts";
import { CountAsks } from "../../../src/engine/exchange/count-asks.ts";

const PEER = { host: "h", port: 1 };
const ASK = { peer: PEER, offer: "a", signal: new AbortController().signal, deadlineMs: 1000 };

test("[KV81] one engine is asked for three counts at a time before it has begun", () => {
  const asks = new CountAsks({ ask: async () => encodeCount(1) });
  const taken = [1, 2, 3].map(() => asks.takeEarly(PEER));
  expect(taken).not.toContain(null);
  expect(asks.takeEarly(PEER)).toBeNull();
  expect(asks.takeEarly({ ...PEER, port: 2 })).not.toBeNull();
  taken[1]?.();
  expect(asks.takeEarly(PEER)).not.toBeNull();
  expect(asks.takeEarly(PEER)).toBeNull();
});

test.each([
  ["says how many", async () => encodeCount(64), 64],
  ["does not know", async () => encodeCount(null), 0],
  ["says nonsense", async () => Buffer.from("{"), 0],
  ["has ended", () => Promise.reject(new Error("gone")), 0],
])("[KV72] an engine that %s", async (_, ask, tokens) => {
  expect(await new CountAsks({ ask }).ask(ASK)).toBe(tokens);
});
