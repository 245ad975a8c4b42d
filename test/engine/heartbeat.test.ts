/** Whether an engine goes on is known to those whom it cannot answer. */
import { existsSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { LLM } from "#engine";
import { Heartbeat } from "../../src/engine/protocol/heartbeat.ts";

const built = existsSync("dist/engine/thread/engine-thread.js");

test("a turn is as long as it runs, and no turn takes no time", () => {
  const heartbeat = new Heartbeat();
  const seen = new Heartbeat(heartbeat.buffer);
  expect(seen.turnMs(1000)).toBe(0);
  heartbeat.beat(1000);
  expect(seen.turnMs(61_000)).toBe(60_000);
  heartbeat.beat(61_000);
  expect(seen.turnMs(61_001)).toBe(1);
  heartbeat.rest();
  expect(seen.turnMs(1e9)).toBe(0);
});

test.runIf(built)("an engine in the middle of a long step shows how long it takes", async () => {
  await using llm = await LLM.load("models/pocket", { device: "reference", engineThread: true });
  await vi.waitFor(() => expect(llm.turnMs()).toBe(0));
  // The reference device takes a while for such a prompt, and reads no message meanwhile.
  const promptTokenIds = Array.from({ length: 2 }, (_, place) => place % 500);
  const result = llm.generate({ promptTokenIds }, { maxTokens: 1, detokenize: false });
  let longest = 0;
  const watch = setInterval(() => {
    longest = Math.max(longest, llm.turnMs());
  }, 5);
  await result;
  clearInterval(watch);
  expect(longest).toBeGreaterThan(20);
  await vi.waitFor(() => expect(llm.turnMs()).toBe(0));
});
