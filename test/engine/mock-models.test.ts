import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  type GenerateOptions,
  KvMirror,
  type LLM,
  type MockModelOptions,
  startMockModel,
  startMockModels,
} from "#engine";
import { costPreset } from "#engine/mock";

/** A step takes some hundredths of a microsecond. */
const FAST: MockModelOptions = { speedup: 1e5, textWorkers: 2, onWarning: () => {} };

const opened: LLM[] = [];
const open = async (options: MockModelOptions = {}) => {
  const llm = await startMockModel({ ...FAST, ...options });
  opened.push(llm);
  return llm;
};
afterAll(async () => {
  for (const llm of opened) await llm.close();
});

const prompt = (seed: number, tokens: number) => ({
  promptTokenIds: Array.from(
    { length: tokens },
    (_, place) => 300 + ((seed * 613 + place * 7) % 3000),
  ),
});

async function tokensOf(llm: LLM, seed: number, options: GenerateOptions = {}) {
  const [result] = await llm.generate(prompt(seed, 200), { maxTokens: 40, seed, ...options });
  return result?.completions.map(({ tokenIds }) => [...tokenIds]);
}

describe("made-up outputs", () => {
  test("[CL101] [CL104] are the same alone and in a crowd, on any worker, and behind preemptions", async () => {
    const roomy = await open();
    const tight = await open({ blocks: [54, 0, 0] });
    const swapping = await open({ blocks: [54, 400, 0], overlapSteps: false });
    const seeds = Array.from({ length: 24 }, (_, seed) => seed + 1);
    const alone: unknown[] = [];
    for (const seed of seeds) alone.push(await tokensOf(roomy, seed));
    for (const llm of [roomy, tight, swapping]) {
      expect(await Promise.all(seeds.map((seed) => tokensOf(llm, seed)))).toEqual(alone);
      expect(llm.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
    }
    expect(tight.stats().preemptions).toBeGreaterThan(0);
    expect(swapping.stats().swapPreemptions).toBeGreaterThan(0);
  });

  test("[CL101] differ by seed, and a request that another worker continues goes on the same", async () => {
    const [a, b] = [await open(), await open()];
    const options = { maxTokens: 30, ignoreEos: true, seed: 9 };
    const [whole] = await a.generate(prompt(1, 50), options);
    const tokens = [...(whole?.completions[0]?.tokenIds ?? [])];
    const ids = [...prompt(1, 50).promptTokenIds, ...tokens.slice(0, 11)];
    const [rest] = await b.generate({ promptTokenIds: ids }, { ...options, maxTokens: 19 });
    expect([...(rest?.completions[0]?.tokenIds ?? [])]).toEqual(tokens.slice(11));
    const generated = [{ tokenIds: tokens.slice(0, 11) }];
    const [carried] = await b.generate({ ...prompt(1, 50), generated }, options);
    expect([...(carried?.completions[0]?.tokenIds ?? [])]).toEqual(tokens.slice(11));
    expect(await tokensOf(a, 1, { seed: 10 })).not.toEqual(await tokensOf(a, 1, { seed: 11 }));
    const greedy = { temperature: 0, ignoreEos: true };
    expect(await tokensOf(a, 1, { ...greedy, seed: 10 })).toEqual(
      await tokensOf(b, 1, { ...greedy, seed: 11 }),
    );
  });

  test("[CL106] as text are encoded to the same tokens again", async () => {
    const llm = await open({ meanOutputTokens: null });
    const [result] = await llm.generate("once", { maxTokens: 200, ignoreEos: true, seed: 2 });
    const [completion] = result?.completions ?? [];
    const text = completion?.text ?? "";
    expect(await llm.codec?.encode(text)).toEqual([...(completion?.tokenIds ?? [])]);
  });

  test("end by themselves at about the mean length, later where minTokens asks", async () => {
    const llm = await open({ meanOutputTokens: 20 });
    const lengths = await Promise.all(
      Array.from({ length: 200 }, async (_, seed) => {
        const [result] = await llm.generate(prompt(seed, 8), { maxTokens: 2000, seed });
        expect(result?.completions[0]?.finishReason).toBe("stop");
        return result?.completions[0]?.tokenIds.length ?? 0;
      }),
    );
    const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
    expect(mean).toBeGreaterThan(14);
    expect(mean).toBeLessThan(27);
    const late = { maxTokens: 2000, minTokens: 150, seed: 1 };
    const [result] = await llm.generate(prompt(1, 8), late);
    expect(result?.completions[0]?.tokenIds.length).toBeGreaterThanOrEqual(150);
  });
});

describe("what requests ask of outputs", () => {
  test("[CL101] grammars, biases, bans, samples and beams hold", async () => {
    const llm = await open();
    const json = await llm.generate("list", {
      ...{ maxTokens: 400, temperature: 0 },
      structuredOutput: { regex: "(yes|no), [0-9]{3}" },
    });
    expect(json[0]?.completions[0]?.text).toMatch(/^(yes|no), [0-9]{3}$/);
    const [biased] = await llm.generate("x", { maxTokens: 3, logitBias: { 500: 100 } });
    expect(biased?.completions[0]?.tokenIds).toEqual([500, 500, 500]);
    const [samples] = await llm.generate("x", { maxTokens: 20, n: 3, seed: 1, ignoreEos: true });
    expect(new Set(samples?.completions.map(({ text }) => text)).size).toBe(3);
    const [scored] = await llm.generate("x y z", { maxTokens: 2, logprobs: 2, promptLogprobs: 1 });
    expect(scored?.completions[0]?.logprobs?.map(({ top }) => top.length)).toEqual([2, 2]);
    expect(scored?.promptLogprobs).toHaveLength(scored?.promptTokenIds.length ?? 0);
  });

  test("texts become vectors that tell them apart", async () => {
    const llm = await open();
    const [a, b, again] = await llm.embed(["one text", "another", "one text"]);
    expect(again?.embedding).toEqual(a?.embedding);
    expect(b?.embedding).not.toEqual(a?.embedding);
  });
});

describe("the cache of a mock", () => {
  test("shares prefixes, and brings blocks back from host memory and disk", async () => {
    for (const blocks of [
      [30, 400, 0],
      [30, 30, 400],
    ] as const) {
      const llm = await open({ blocks });
      for (let seed = 0; seed < 8; seed++) await tokensOf(llm, seed);
      const [again] = await llm.generate(prompt(0, 200), { maxTokens: 1 });
      expect(again?.cachedTokens).toBeGreaterThanOrEqual(192);
      const onboard = llm.stats().cache?.moves.onboard.blocks ?? 0;
      expect(onboard).toBeGreaterThan(0);
    }
  });

  test("its events add up to its snapshot", async () => {
    const llm = await open({ blocks: [60, 60, 0] });
    for (let seed = 0; seed < 12; seed++) await tokensOf(llm, seed);
    const mirror = new KvMirror();
    for (const event of await llm.kvEvents.getLatestEvents(0)) mirror.apply(event);
    const snapshot = await llm.kvEvents.snapshot();
    expect(mirror.size).toBe(snapshot.blocks.length);
    expect(snapshot.blocks.length).toBeGreaterThan(60);
  });
});

test("[CL109] several in one process share the text side, and nothing of their caches", async () => {
  const models = await startMockModels(3, FAST);
  const [first, second] = models;
  expect(second?.info.fingerprint).toBe(first?.info.fingerprint);
  await first?.generate(prompt(5, 100), { maxTokens: 1 });
  const [cold] = (await second?.generate(prompt(5, 100), { maxTokens: 1 })) ?? [];
  expect(cold?.cachedTokens).toBe(0);
  const texts = await Promise.all(
    models.map((llm) => llm.generate("hi", { maxTokens: 5, seed: 1 })),
  );
  expect(new Set(texts.map(([result]) => result?.completions[0]?.text)).size).toBe(1);
  await first?.close();
  const [last] = (await second?.generate("there", { maxTokens: 2, ignoreEos: true })) ?? [];
  expect(last?.completions[0]?.tokenIds).toHaveLength(2);
  for (const llm of models) await llm.close();
});

describe("wrong settings", () => {
  test("of costs are named", async () => {
    const folder = mkdtempSync(join(tmpdir(), "costs-"));
    const file = (name: string, text: string) => {
      const path = join(folder, name);
      writeFileSync(path, text);
      return path;
    };
    const { step, ...machine } = costPreset("cpu-110m");
    const points = [{ decoding: 1, contextTokens: 10, ms: 5 }];
    const fitted = file("fit.json", JSON.stringify({ ...machine, points }));
    expect((await open({ costModel: fitted })).info.device).toContain("cpu-110m");
    const both = file("both.json", JSON.stringify({ ...machine, step, points }));
    await expect(startMockModel({ costModel: both })).rejects.toThrow(
      /step: must be there, or points/,
    );
    const broken = file("broken.json", "{");
    await expect(startMockModel({ costModel: broken })).rejects.toThrow(/this one is none/);
    await expect(startMockModel({ costModel: "h100" })).rejects.toThrow(/wanted h200-8b, cpu-110m/);
    const negative = { ...costPreset("cpu-110m"), step: { ...step, stepMs: -1 } };
    await expect(startMockModel({ costModel: negative })).rejects.toThrow(/stepMs/);
    await expect(startMockModel({ speedup: 0 })).rejects.toThrow(/speedup/);
    await expect(startMockModel({ speculative: { kind: "lookup" } })).rejects.toThrow(
      /speculative must be off/,
    );
    rmSync(folder, { recursive: true });
  });
});
