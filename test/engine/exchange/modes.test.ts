import { expect, test } from "vitest";
import type { GenerateOptions, LoadOptions } from "../../../src/index.ts";
import { alone, GREEDY, ids, load, sourceOf } from "./peers.ts";

/** Ways to load both engines, by name. */
const LOADED: Readonly<Record<string, { own?: LoadOptions; model?: string }>> = {
  "8-bit keys and values": { own: { kvCache: { poolBytes: 2 ** 21, dtype: "int8" } } },
  "drafts by lookup": { own: { speculative: { kind: "lookup" } } },
  "groups of layers with windows": { model: "test/fixtures/models/gemma2" },
  "a window of all layers": { model: "test/fixtures/models/mistral-sliding-window" },
  "mixtures of experts": { model: "test/fixtures/models/qwen3-moe" },
  "blocks of 4 tokens": { own: { kvCache: { poolBytes: 2 ** 21, blockTokens: 4 } } },
};

/** From device to device, and through host memory. */
const PATHS = ["auto", "host"] as const;

const loaded = PATHS.flatMap((path) => Object.keys(LOADED).map((name) => [name, path] as const));

test.each(loaded)("tokens are those of one engine: %s, path %s", async (name, path) => {
  const { own: given = {}, model } = LOADED[name] ?? {};
  const own = { ...given, kvTransfer: { path } };
  const giver = await load(own, model);
  const taker = await load(own, model);
  await using prefill = giver.llm;
  await using decode = taker.llm;
  for (const length of [3, 17, 47]) {
    const prompt = ids(length, length);
    const found = await decode.generate([{ promptTokenIds: prompt }], {
      ...GREEDY,
      kvSource: sourceOf(prefill),
    });
    const expected = await alone([prompt], GREEDY, { own, ...(model !== undefined && { model }) });
    expect(found.map(({ completions }) => completions.map(({ tokenIds }) => tokenIds))).toEqual(
      expected.map((completions) => completions?.map(({ tokenIds }) => tokenIds)),
    );
    expect(found[0]?.cachedTokens).toBe(0);
  }
  expect(taker.warnings.filter((text) => /fetch/.test(text))).toEqual([]);
  for (const llm of [prefill, decode]) expect(llm.stats().heldBlocks).toBe(0);
});

/** Options of requests, by name. */
const ASKED: Readonly<Record<string, GenerateOptions>> = {
  "three samples": { n: 3, temperature: 1, seed: 5, maxTokens: 6, ignoreEos: true },
  "log-probabilities of the prompt": { ...GREEDY, promptLogprobs: 1 },
  "a beam search": { beamWidth: 2, maxTokens: 5, ignoreEos: true },
  penalties: { ...GREEDY, frequencyPenalty: 1, presencePenalty: 0.5 },
};

const asked = PATHS.flatMap((path) => Object.keys(ASKED).map((name) => [name, path] as const));

test.each(asked)("tokens are those of one engine: %s, path %s", async (name, path) => {
  const params = ASKED[name] ?? GREEDY;
  const { llm: prefill } = await load({ kvTransfer: { path } });
  const { llm: decode } = await load({ kvTransfer: { path } });
  await using _giver = prefill;
  await using _taker = decode;
  const prompts = [ids(1, 50), ids(2, 33), ids(1, 50)];
  const found = await decode.generate(
    prompts.map((promptTokenIds) => ({ promptTokenIds })),
    { ...params, kvSource: sourceOf(prefill) },
  );
  expect(found.map(({ completions }) => completions)).toEqual(await alone(prompts, params));
  for (const llm of [prefill, decode]) expect(llm.stats().heldBlocks).toBe(0);
});

test("another salt gets none of the blocks", async () => {
  const { llm: prefill } = await load();
  const { llm: decode } = await load();
  await using _giver = prefill;
  await using _taker = decode;
  const prompt = { promptTokenIds: ids(1, 50) };
  await prefill.generate([prompt], { ...GREEDY, cacheSalt: "a" });
  const ask = async (cacheSalt: string) => {
    const params = { ...GREEDY, cacheSalt, kvSource: sourceOf(prefill, false) };
    return (await decode.generate([prompt], params))[0]?.cachedTokens;
  };
  expect(await ask("b")).toBe(0);
  expect(await ask("a")).toBe(49);
});
