import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { LLM } from "#engine";
import { fixturePath } from "../contracts/recorded-model.ts";

const kvCache = { blockTokens: 4, poolBytes: 2 ** 20 };
const prompt = { promptTokenIds: [1, 5, 6, 7, 8, 9, 10, 11, 12, 13] };

/** A small model on the reference device, on the test's own thread. */
function load(more: object = {}): Promise<LLM> {
  return LLM.load(fixturePath("llama"), {
    device: "reference",
    engineThread: false,
    kvCache: { ...kvCache, ...more },
  });
}

test("the report has the device's blocks from the start, and follows what is found", async () => {
  await using llm = await load();
  const { blocks } = llm.info;
  expect(llm.stats().cache).toMatchObject({
    levels: [{ level: "device", free: blocks, held: 0, cached: 0, total: blocks, hitTokens: 0 }],
    copiedBlocks: 0,
  });
  await llm.generate(prompt, { maxTokens: 2, temperature: 0 });
  await llm.generate(prompt, { maxTokens: 2, temperature: 0 });
  const [device] = llm.stats().cache?.levels ?? [];
  expect(device).toMatchObject({ held: 0, hitTokens: 9 });
  expect(device?.cached).toBeGreaterThan(0);
});

test("samples of one prompt share its blocks, which shows as forks and copies", async () => {
  await using llm = await load();
  await llm.generate(prompt, { maxTokens: 3, temperature: 1, seed: 1, n: 3 });
  const { forks, cache } = llm.stats();
  expect(forks).toBe(2);
  expect(cache?.copiedBlocks).toBe(2);
  expect(cache?.moves.copy).toMatchObject({ blocks: 2, bytes: 2 * llm.info.bytesPerBlock });
});

test("host memory is a level of its own, and what moved is counted both ways", async () => {
  await using llm = await load({ hostCacheBytes: 2 ** 20, poolBytes: 24 * 1024 });
  const { blocks, bytesPerBlock } = llm.info;
  const promptTokens = Math.max(8, (blocks - 2) * kvCache.blockTokens);
  const longPrompt = (first: number) => ({
    promptTokenIds: Array.from({ length: promptTokens }, (_, index) => first + (index % 50)),
  });
  for (const first of [1, 60, 1]) {
    await llm.generate(longPrompt(first), { maxTokens: 1, temperature: 0 });
  }
  const { cache } = llm.stats();
  const [device, host, ...rest] = cache?.levels ?? [];
  expect(rest).toEqual([]);
  expect(device?.offloaded).toBeGreaterThan(0);
  expect(host?.onboarded).toBeGreaterThan(0);
  expect(host?.hitTokens).toBeGreaterThan(0);
  expect(cache?.moves.offload.bytes).toBe((cache?.moves.offload.blocks ?? 0) * bytesPerBlock);
  expect(cache?.moves.onboard.blocks).toBeGreaterThan(0);
});

test("a model without a cache reports none", async () => {
  const bert = fixturePath("bert");
  if (!existsSync(bert)) return;
  await using llm = await LLM.load(bert, { device: "reference", engineThread: false });
  expect(llm.stats().cache).toBeNull();
});
