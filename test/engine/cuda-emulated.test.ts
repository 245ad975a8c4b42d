/**
 * The cuda device under the whole engine, on the emulated GPU: in the long run only, since the first
 * run compiles all kernels. The short run has each op by itself, in test/devices/cuda.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";
import { emulatedSettings } from "../devices/cuda/emulated-device.ts";
import { full } from "../support/full.ts";
import { writeRandomEagle3 } from "../support/random-eagle3.ts";

/** Null where no emulator can be built. */
const cuda = full ? emulatedSettings() : null;

/** Small enough for an emulator: a thread of the GPU is a fiber here. */
const options = {
  device: "cuda",
  dtype: "float32",
  engineThread: false,
  kvCache: { blockTokens: 4, poolBytes: 2 ** 20 },
  scheduler: { runningSequencesMax: 4, stepTokensMax: 16, contextTokensMax: 32 },
} satisfies LoadOptions;

describe.runIf(cuda !== null)("a recorded model on the emulated GPU", () => {
  test("gives the recorded tokens, cached and computed", { timeout: 240_000 }, async () => {
    const [, short] = openRecordedModel("llama").cases;
    const { prompt = [], greedy = [] } = short ?? {};
    const newTokens = 4;
    await using llm = await LLM.load(fixturePath("llama"), { ...options, cuda: cuda ?? {} });
    expect(llm.info).toMatchObject({ weightFormat: "f32", kvFormat: "f32", blockTokens: 4 });
    expect(llm.info.device).toMatch(/^cuda: /);
    for (const cachedTokens of [0, prompt.length - 1]) {
      const [result] = await llm.generate(
        { promptTokenIds: prompt },
        { temperature: 0, maxTokens: newTokens, minTokens: newTokens },
      );
      expect(result?.cachedTokens).toBe(cachedTokens);
      expect(result?.completions[0]?.tokenIds).toEqual(greedy.slice(0, newTokens));
    }
    expect(llm.stats().heldBlocks).toBe(0);
  });

  test("keeps weights in bf16 unless asked, and forks samples in one batch", async () => {
    const warnings: string[] = [];
    await using llm = await LLM.load(fixturePath("llama"), {
      ...{ ...options, dtype: "auto" },
      cuda: cuda ?? {},
      onWarning: (message) => warnings.push(message),
    });
    const phases = llm.loadPhases.filter(({ bytes }) => bytes > 0).map(({ name }) => name);
    expect(phases).toEqual(expect.arrayContaining(["weights", "steps", "cache"]));
    expect(llm.info).toMatchObject({ weightFormat: "bf16", kvFormat: "bf16" });
    const params = { temperature: 1, seed: 3, n: 2, maxTokens: 4, ignoreEos: true };
    const [result] = await llm.generate({ promptTokenIds: [7, 8, 9, 10, 11] }, params);
    expect(result?.completions.map(({ tokenIds }) => tokenIds.length)).toEqual([4, 4]);
    expect(llm.stats().forks).toBe(1);
    const all = { ...params, n: 1, repetitionPenalty: 1.2, logprobs: 2, topP: 0.5, minP: 0.1 };
    await llm.generate({ promptTokenIds: [7, 8, 9] }, all);
    await llm.generate({ promptTokenIds: [7, 8, 9] }, { beamWidth: 2, maxTokens: 2 });
    // Nothing was allocated after loading.
    expect(warnings.filter((text) => text.includes("GPU memory"))).toEqual([]);
  });

  test.for(["draft-model", "eagle3"] as const)(
    "drafts by %s, whose keys and values follow its steps",
    { timeout: 240_000 },
    async (kind) => {
      const folder = mkdtempSync(join(tmpdir(), "perigee-emulated-"));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      // The model itself: all its drafts are accepted.
      const model = kind === "eagle3" ? folder : fixturePath("llama");
      writeRandomEagle3(folder, { base: 96, taps: [0, 1, 2], vocabulary: 320, drafted: 100 });
      const [, short] = openRecordedModel("llama").cases;
      const { prompt = [], greedy = [] } = short ?? {};
      const warnings: string[] = [];
      await using llm = await LLM.load(fixturePath("llama"), {
        ...{ ...options, cuda: cuda ?? {}, onWarning: (message) => warnings.push(message) },
        speculative: { kind, model, lengthMax: 3, adaptive: false },
      });
      const [result] = await llm.generate(
        { promptTokenIds: prompt },
        { temperature: 0, maxTokens: 8, minTokens: 8 },
      );
      expect(result?.completions[0]?.tokenIds).toEqual(greedy.slice(0, 8));
      const { draftedTokens, acceptedTokens } = llm.stats();
      expect(draftedTokens).toBeGreaterThan(3);
      if (kind === "draft-model") expect(acceptedTokens).toBe(draftedTokens);
      expect(warnings.filter((text) => text.includes("GPU memory"))).toEqual([]);
    },
  );

  test("[PP16] two stages that share it give the tokens of one", { timeout: 480_000 }, async () => {
    const ask = async (stages: number) => {
      const warnings: string[] = [];
      await using llm = await LLM.load(fixturePath("llama"), {
        ...{ ...options, dtype: "auto", engineThread: true, cuda: cuda ?? {} },
        scheduler: { ...options.scheduler, contextTokensMax: 64 },
        pipeline: { stages, chunkTokens: 16, shareGpus: true },
        onWarning: (message) => warnings.push(message),
      });
      const promptTokenIds = Array.from({ length: 50 }, (_, place) => 3 + place);
      const params = { temperature: 0, maxTokens: 3, ignoreEos: true, logprobs: 1 };
      const [result] = await llm.generate({ promptTokenIds }, params);
      expect(warnings.filter((text) => /GPU memory|pinned/.test(text))).toEqual([]);
      return result?.completions[0]?.logprobs;
    };
    const one = await ask(1);
    expect(one).toHaveLength(3);
    expect(await ask(2)).toEqual(one);
  });

  test("a GPU that is too small is an error with the numbers", async () => {
    const loading = LLM.load(fixturePath("llama"), {
      ...{ ...options, cuda: cuda ?? {}, gpuMemoryUtilization: 1e-6 },
      kvCache: { blockTokens: 4 },
    });
    await expect(loading).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    await expect(loading).rejects.toThrow(
      /of the GPU's [\d.]+ GiB, [\d.]+ GiB were in use before, .*weights took .*stepTokensMax/,
    );
  });
});
