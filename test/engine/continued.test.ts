/** Requests that go on from what another engine generated: every token as if nothing had happened. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type GenerateOptions, LLM } from "#engine";
import { cutAt, goOn, lengthOf, run } from "../support/continuing.ts";

const prompt = "A hash table stores";

let llm: LLM;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { dtype: "float32", engineThread: false });
});

afterAll(async () => {
  await llm?.[Symbol.asyncDispose]();
});

afterEach(async () => {
  await expect.poll(() => llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});

const OPTIONS: readonly (readonly [string, GenerateOptions])[] = [
  ["greedy", { temperature: 0 }],
  ["seeded", { seed: 7 }],
  ["top k, top p and min p", { seed: 8, topK: 20, topP: 0.9, minP: 0.01 }],
];

test.for(OPTIONS)("[CL110] cut at every token, the run goes on: %s", async ([, options]) => {
  const whole = await run(llm, prompt, { ...options, maxTokens: 24 });
  for (let cut = 0; cut < lengthOf(whole); cut++) await goOn(llm, whole, cutAt(whole, cut));
});
