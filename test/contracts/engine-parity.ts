/** Through the whole engine, every family gives Hugging Face's tokens, however they are computed. */
import { describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { cpuThreads } from "../support/full.ts";
import { decoderFixtures, fixturePath, openRecordedModel } from "./recorded-model.ts";

const newTokens = 24;
/** The recordings masked the end token until the last step. */
const greedy: GenerateOptions = { temperature: 0, maxTokens: newTokens, minTokens: newTokens };
const blockTokens = 4;
/** What the longest prompt and its answer fill, less the last token, which is never computed. */
const smallestPoolBlocks = Math.ceil((90 + newTokens - 1) / blockTokens);
/** With a window of 16 tokens no sequence needs more, and hardly two have room. */
const windowedPoolBlocks = 6;

/**
 * What every device owes, run through `LLM`. `cuda`: where that device finds its libraries;
 * `overlapSteps`: whether steps start before the ones before them end, null: where the device can;
 * `fixtures`: which recorded models are run.
 */
export function engineParityContract(
  device: "reference" | "cpu" | "cuda",
  cuda: NonNullable<LoadOptions["cuda"]> = {},
  overlapSteps: boolean | null = null,
  fixtures: readonly string[] = decoderFixtures,
): void {
  const name = overlapSteps === true ? `${device}, steps ahead,` : device;
  describe.each(fixtures)(`${name} and %s`, (fixture) => {
    const { cases } = openRecordedModel(fixture);
    const prompts = cases.map(({ prompt }) => ({ promptTokenIds: prompt }));
    const expected = cases.map(({ greedy: tokens }) => tokens);

    /** Loads, runs, and checks that no block is held at the end. */
    async function withModel<T>(
      options: Pick<LoadOptions, "kvCache" | "scheduler">,
      run: (llm: LLM) => Promise<T>,
    ): Promise<T> {
      await using llm = await LLM.load(fixturePath(fixture), {
        device,
        cuda,
        overlapSteps,
        dtype: "float32",
        threads: cpuThreads,
        engineThread: false,
        ...options,
        scheduler: { runningSequencesMax: 8, stepTokensMax: 256, ...options.scheduler },
      });
      const result = await run(llm);
      expect(llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
      return result;
    }

    async function tokensOf(llm: LLM, batch = prompts): Promise<(readonly number[])[]> {
      const results = await llm.generate(batch, greedy);
      return results.map(({ completions }) => completions[0]?.tokenIds ?? []);
    }

    test("one prompt after the other, then again from the prefix cache", async () => {
      await withModel({}, async (llm) => {
        for (const round of ["computed", "cached"]) {
          for (const [place, prompt] of prompts.entries()) {
            const [result] = await llm.generate(prompt, greedy);
            expect(result?.completions[0]?.tokenIds).toEqual(expected[place]);
            const all = prompt.promptTokenIds.length - 1;
            if (round === "cached") expect(result?.cachedTokens).toBe(all);
          }
        }
        expect(llm.stats().prefixHitTokens).toBeGreaterThan(0);
      });
    });

    test("all prompts in one mixed batch", async () => {
      expect(await withModel({}, (llm) => tokensOf(llm))).toEqual(expected);
    });

    test("prompts in chunks of 5 tokens", async () => {
      const scheduler = { longPrefillTokensMax: 5 };
      expect(await withModel({ scheduler }, (llm) => tokensOf(llm))).toEqual(expected);
    });

    test("with the smallest pool that can run, by preemption", async () => {
      const info = await withModel({ kvCache: { blockTokens } }, async (llm) => llm.info);
      const ofGroup = info.attentionWindow === null ? smallestPoolBlocks : windowedPoolBlocks;
      const blocks = ofGroup * info.groupWindows.length;
      const kvCache = { blockTokens, poolBytes: info.bytesPerBlock * blocks };
      await withModel({ kvCache }, async (llm) => {
        expect(llm.info.blocks).toBe(blocks);
        const twice = await tokensOf(llm, [...prompts, ...prompts]);
        expect(twice).toEqual([...expected, ...expected]);
        expect(llm.stats().preemptions).toBeGreaterThan(0);
      });
    });
  });
}
