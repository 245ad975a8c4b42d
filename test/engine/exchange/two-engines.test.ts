import { describe, expect, test } from "vitest";
import { LLM, type LoadOptions } from "../../../src/index.ts";

const MODEL = "models/pocket";
const OPTIONS = {
  device: "cpu",
  dtype: "float32",
  threads: 1,
  engineThread: false,
  kvTransfer: {},
  kvCache: { poolBytes: 32 * 2 ** 20 },
} satisfies LoadOptions;

/** Ids of a made-up text: no two seeds begin alike. */
function ids(seed: number, length: number): number[] {
  return Array.from({ length }, (_, place) => 300 + ((seed * 7919 + place * 104_729) % 3000));
}

async function two(run: (decode: LLM, prefill: LLM) => Promise<void>, own: LoadOptions = {}) {
  await using prefill = await LLM.load(MODEL, OPTIONS);
  await using decode = await LLM.load(MODEL, { ...OPTIONS, ...own });
  await run(decode, prefill);
  for (const llm of [decode, prefill]) {
    await llm.generate([{ promptTokenIds: ids(99, 20) }], { maxTokens: 1, temperature: 0 });
    expect(llm.stats().heldBlocks).toBe(0);
    for (const level of llm.stats().cache?.levels ?? []) expect(level.held).toBe(0);
  }
}

describe("an engine that computes prompts for another one", () => {
  test("gives the same tokens as one alone, greedy and sampled, n = 2, with logprobs", () =>
    two(async (decode, prefill) => {
      const { kvAddress } = prefill.info;
      if (kvAddress === null) throw new Error("It must have an address");
      await using alone = await LLM.load(MODEL, { ...OPTIONS, kvTransfer: null });
      for (const [seed, options] of [
        [1, { temperature: 0 }],
        [2, { temperature: 1, seed: 5, n: 2 }],
        [3, { temperature: 0.7, seed: 6, logprobs: 2 }],
      ] as const) {
        const prompt = { promptTokenIds: ids(seed, 333) };
        const params = { ...options, maxTokens: 20, ignoreEos: true };
        const [expected] = await alone.generate([prompt], params);
        const kvSource = { ...kvAddress, compute: true };
        const [found] = await decode.generate([prompt], { ...params, kvSource });
        expect(found?.completions).toEqual(expected?.completions);
        // What the other one computed for this request was in no cache.
        expect(found?.cachedTokens).toBe(0);
      }
      const steps = prefill.stats();
      expect(steps.computedPromptTokens).toBe(3 * 332);
      expect(decode.stats().computedPromptTokens).toBe(3);
    }));

  test("fetches only what the other has stored, where it is not to compute", () =>
    two(async (decode, prefill) => {
      const { kvAddress } = prefill.info;
      if (kvAddress === null) throw new Error("It must have an address");
      const params = { maxTokens: 8, temperature: 0, ignoreEos: true };
      const beginning = ids(1, 160);
      await prefill.generate([{ promptTokenIds: [...beginning, 7, 8, 9] }], params);
      const prompt = { promptTokenIds: [...beginning, ...ids(2, 100)] };
      const [found] = await decode.generate([prompt], { ...params, kvSource: kvAddress });
      expect(found?.cachedTokens).toBe(160);
      const { pieces = 0, seconds = 0 } = decode.stats().cache?.fetched ?? {};
      expect(pieces).toBe(10);
      expect(seconds).toBeGreaterThan(0);
      await using alone = await LLM.load(MODEL, { ...OPTIONS, kvTransfer: null });
      const [expected] = await alone.generate([prompt], params);
      expect(found?.completions).toEqual(expected?.completions);
    }));
});
