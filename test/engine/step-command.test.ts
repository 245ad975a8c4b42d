/** Commands are plain data: an engine whose commands, edits and results are cloned answers alike. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type GenerateOptions, LLM } from "#engine";
import { DecoderExecutor } from "../../src/engine/forward/decoder-executor.ts";
import { fixturePath } from "../contracts/recorded-model.ts";
import { eachNth } from "../support/full.ts";
import { CloningExecutor } from "./cloning-executor.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** What a block of four tokens of the fixture takes in float32. */
const BLOCK_BYTES = 3072;

const { start } = DecoderExecutor.prototype;

/** Clones the commands of every engine from now on; returns the number of commands so far. */
function cloneCommands(): () => number {
  let commands = 0;
  const spied = vi.spyOn(DecoderExecutor.prototype, "start");
  spied.mockImplementation(function (this: DecoderExecutor, ...given) {
    commands++;
    const executor = new CloningExecutor({ start: start.bind(this) });
    const [command, onPart] = given;
    return executor.start(command, onPart);
  });
  return () => commands;
}

const prompts = eachNth(2, ["A hash table stores", "The sea", "Once", "def main():"]);

/** Greedy, sampled, forked and searched; with edits, log-probabilities and prompts' results. */
const asks: readonly GenerateOptions[] = [
  { temperature: 0, maxTokens: 12, promptLogprobs: 2 },
  { temperature: 1, seed: 3, maxTokens: 12, n: 3, logprobs: 3 },
  { temperature: 0.8, topK: 20, topP: 0.9, minP: 0.01, seed: 5, minTokens: 4, maxTokens: 12 },
  { temperature: 0.7, seed: 6, repetitionPenalty: 1.3, frequencyPenalty: 0.2, maxTokens: 12 },
  { temperature: 0, logitBias: { 300: 2 }, badWords: ["the"], maxTokens: 8, logprobs: -1 },
  { temperature: 1, seed: 9, structuredOutput: { choice: ["yes", "no"] }, maxTokens: 8 },
  { beamWidth: 3, n: 2, maxTokens: 8 },
];

async function answers(llm: LLM) {
  const all = asks.map(async (options) => {
    const results = await llm.generate(prompts, options);
    return results.map(({ completions, promptLogprobs }) => ({
      promptLogprobs,
      completions: completions.map(({ tokenIds, logprobs, finishReason }) => {
        return { tokenIds, logprobs, finishReason };
      }),
    }));
  });
  const embeddings = await llm.embed(prompts);
  return { answers: await Promise.all(all), embeddings };
}

describe.each([false, true])("with steps ahead: %s", (overlapSteps) => {
  test("commands that are cloned give the same tokens", async () => {
    const run = async () => {
      await using llm = await LLM.load("models/pocket", {
        ...{ device: "cpu", dtype: "float32", engineThread: false, overlapSteps },
        scheduler: { runningSequencesMax: 12, stepTokensMax: 24 },
      });
      return await answers(llm);
    };
    const expected = await run();
    const commands = cloneCommands();
    expect(await run()).toEqual(expected);
    expect(commands()).toBeGreaterThan(20);
  });

  test("moves and disk jobs that are cloned are found again at their ends", async () => {
    const diskCacheDir = mkdtempSync(join(tmpdir(), "perigee-commands-"));
    onTestFinished(() => rmSync(diskCacheDir, { recursive: true }));
    cloneCommands();
    await using llm = await LLM.load(fixturePath("llama"), {
      ...{ device: "cpu", dtype: "float32", engineThread: false, overlapSteps },
      kvCache: {
        ...{ blockTokens: 4, diskCacheDir, onboard: "always" },
        poolBytes: 30 * BLOCK_BYTES,
        hostCacheBytes: 16 * BLOCK_BYTES,
        diskCacheBytes: 400 * BLOCK_BYTES,
      },
    });
    const tell = async (first: number) => {
      const promptTokenIds = Array.from({ length: 90 }, (_, place) => 3 + first + place);
      const [result] = await llm.generate({ promptTokenIds }, { temperature: 0, maxTokens: 4 });
      await expect.poll(() => llm.stats().cache?.levels[2]?.held, { timeout: 20_000 }).toBe(0);
      return result;
    };
    const before = await tell(0);
    for (const other of [20, 40, 60]) await tell(other);
    const after = await tell(0);
    expect(after?.completions[0]?.tokenIds).toEqual(before?.completions[0]?.tokenIds);
    expect(after?.cachedTokens).toBeGreaterThan(0);
    expect(llm.stats().cache?.levels[2]?.hitTokens).toBeGreaterThan(0);
  });
});
