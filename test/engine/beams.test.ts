/** For test/engine/beams.test.ts, once the engine runs beams: Hugging Face's searches through LLM. */
import { describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { decoderFixtures, fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";

const newTokens = 12;
/** The recordings masked the end token. */
const search: GenerateOptions = {
  beamWidth: 4,
  n: 4,
  maxTokens: newTokens,
  minTokens: newTokens,
};
const blockTokens = 4;

describe.each(decoderFixtures)("beam search of %s", (fixture) => {
  const { cases } = openRecordedModel(fixture);
  const prompts = cases.map(({ prompt }) => ({ promptTokenIds: prompt }));

  async function withModel<T>(options: LoadOptions, run: (llm: LLM) => Promise<T>): Promise<T> {
    await using llm = await LLM.load(fixturePath(fixture), {
      device: "cpu",
      dtype: "float32",
      threads: 1,
      engineThread: false,
      ...options,
      kvCache: { blockTokens, ...options.kvCache },
      scheduler: { runningSequencesMax: 32, stepTokensMax: 256, ...options.scheduler },
    });
    const result = await run(llm);
    expect(llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
    return result;
  }

  async function expectRecorded(llm: LLM): Promise<void> {
    const results = await llm.generate(prompts, search);
    for (const [place, { completions }] of results.entries()) {
      const beams = cases[place]?.beams ?? [];
      expect(completions.map(({ tokenIds }) => tokenIds)).toEqual(
        beams.map(({ tokens }) => tokens),
      );
      for (const [at, { score, cumulativeLogprob }] of completions.entries()) {
        expect(Math.abs((score ?? 0) - (beams[at]?.score ?? 0))).toBeLessThanOrEqual(1e-4);
        expect(cumulativeLogprob).toBeCloseTo((score ?? 0) * newTokens, 4);
      }
    }
  }

  test("all prompts in one batch, twice: computed, then from the cache", async () => {
    await withModel({}, async (llm) => {
      await expectRecorded(llm);
      await expectRecorded(llm);
    });
  });

  test("beside sampled sequences, in chunks of 5 tokens", async () => {
    await withModel({ scheduler: { longPrefillTokensMax: 5 } }, async (llm) => {
      const greedy = { temperature: 0, maxTokens: 24, minTokens: 24 };
      const [, drawn] = await Promise.all([expectRecorded(llm), llm.generate(prompts, greedy)]);
      expect(drawn.map(({ completions }) => completions[0]?.tokenIds)).toEqual(
        cases.map(({ greedy: tokens }) => tokens),
      );
    });
  });

  test("with a pool for one search at a time, by preemption", async () => {
    const { bytesPerBlock, groupWindows } = await withModel({}, async ({ info }) => info);
    const bytes = bytesPerBlock * groupWindows.length;
    const hasWindow = groupWindows.some((window) => window !== null);
    // The longest prompt's full blocks once, and what each beam has of its own; with a window
    // nothing counts as shared.
    const shared = hasWindow ? 0 : Math.floor(90 / blockTokens);
    const blocks = shared + 4 * (Math.ceil((90 + newTokens - 1) / blockTokens) - shared);
    const kvCache = { poolBytes: bytes * blocks };
    await withModel({ kvCache }, (llm) => expectRecorded(llm));
  });

  test("fewer returned are the best of all", async () => {
    await withModel({}, async (llm) => {
      const [result] = await llm.generate(prompts.slice(1, 2), { ...search, n: 2 });
      expect(result?.completions.map(({ tokenIds }) => tokenIds)).toEqual(
        cases[1]?.beams.slice(0, 2).map(({ tokens }) => tokens),
      );
    });
  });
});
