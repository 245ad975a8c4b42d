import { expect, test } from "vitest";
import { LLM } from "#engine";
import { SamplingParams } from "#sampling";
import { parseEngineOptions } from "../../src/engine/protocol/config.ts";
import type { FromEngine } from "../../src/engine/protocol/protocol.ts";
import { EngineService } from "../../src/engine/thread/service.ts";
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

test("the statistics have the device's blocks from the start, and follows what is found", async () => {
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

/** Messages of a loaded service until a request of `maxTokens` steps has ended, by type. */
async function postedTypes(msPerLook: number, maxTokens: number): Promise<FromEngine["type"][]> {
  let nowMs = 0;
  const clock = {
    nowMs: () => {
      nowMs += msPerLook;
      return nowMs;
    },
  };
  const request = {
    key: 1,
    requestId: "one",
    promptTokenIds: Int32Array.from(prompt.promptTokenIds),
    params: SamplingParams.parse({ temperature: 0, maxTokens, ignoreEos: true }),
    seed: 0n,
    cacheSalt: null,
    retention: null,
    priority: 0,
    badWordTokenIds: [],
    thinking: null,
    promptLogits: false,
    ...{ draftShape: null, predictedTokenIds: null },
  };
  const types: FromEngine["type"][] = [];
  const post = (message: FromEngine) => {
    if (message.type !== "loading") types.push(message.type);
    if (message.type === "ready") service.receive({ type: "add", request });
    if (message.type !== "step") return;
    const isLast = message.outputs.some(({ finishReason }) => finishReason !== null);
    if (isLast) service.receive({ type: "close" });
  };
  const timer = { after: () => () => {} };
  const service = new EngineService({ clock, timer, post });
  const quiet = { ...kvCache, eventBufferMax: 0 };
  const speculative = { kind: "off" } as const;
  const options = parseEngineOptions({ device: "reference", kvCache: quiet, speculative });
  service.receive({ type: "load", path: fixturePath("llama"), options });
  await service.closed;
  return types.slice(0, types.lastIndexOf("step") + 1);
}

test("while steps run the report crosses rarely, but always with the last one", async () => {
  const [first, second, ...steps] = await postedTypes(0, 6);
  expect([first, second]).toEqual(["cacheStats", "ready"]);
  expect(steps).toEqual([...Array(5).fill("step"), "cacheStats", "step"]);
});

test("slow steps bring the report every time", async () => {
  const types = await postedTypes(100, 3);
  expect(types.slice(2)).toEqual([
    "cacheStats",
    "step",
    "cacheStats",
    "step",
    "cacheStats",
    "step",
  ]);
});

test("a model without a cache reports none", async () => {
  await using llm = await LLM.load(fixturePath("bert-encoder"), {
    device: "reference",
    engineThread: false,
  });
  expect(llm.stats().cache).toBeNull();
});
