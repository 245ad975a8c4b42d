/** Random requests, cut anywhere, once or several times, at random engines of one model. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { generatedBefore, goOn, type Run, run } from "../support/continuing.ts";
import { cpuThreads, sized } from "../support/full.ts";
import { Dice } from "./dice.ts";

const SEEDS = Array.from({ length: sized(24, 600) }, (_, place) => 1 + place);
const pocket = "models/pocket";
const shared: LoadOptions = { dtype: "float32", threads: cpuThreads, engineThread: false };

let models: readonly LLM[] = [];

beforeAll(async () => {
  models = await Promise.all([
    // Log-probabilities of tokens in a tree may differ in their last bits.
    LLM.load(pocket, { ...shared, speculative: { kind: "off" } }),
    LLM.load(pocket, {
      ...{ ...shared, kvCache: { poolBytes: 2 ** 21, hostCacheBytes: 2 ** 21 } },
      speculative: { kind: "lookup", adaptive: false },
      scheduler: { stepTokensMax: 16, runningSequencesMax: 4, preemption: "swap" },
    }),
  ]);
});

afterAll(async () => {
  await Promise.all(models.map((model) => model.close()));
});

const PROMPTS = ["A hash table stores", "1, 2, 3, 4, 5, 1, 2, 3,", "é", "List:\n- a\n- b\n-"];

/** Each option is there or not; those that contradict each other stand in one entry. */
const CHOICES: readonly (readonly GenerateOptions[])[] = [
  [
    { temperature: 0 },
    { temperature: 1 },
    { temperature: 1.4, topK: 30 },
    { topP: 0.8, minP: 0.02 },
  ],
  [{}, { n: 2 }, { n: 3 }],
  [{}, { presencePenalty: 1 }, { frequencyPenalty: 0.6 }, { repetitionPenalty: 1.2 }],
  [{}, { stop: ["e", "of the"] }, { stop: "1, 2, 3, 4", includeStopStrInOutput: true }],
  [{}, { minTokens: 6 }, { ignoreEos: true }, { stopTokenIds: [40, 260, 300] }],
  [{}, { logprobs: 2 }, { promptLogprobs: 1 }, { detokenize: true, skipSpecialTokens: false }],
  [{}, { logitBias: { 165: 4, 200: 4, 230: 4 } }, { badWords: ["the", " a"] }],
  [
    {},
    ...[{}, { structuredOutput: { regex: "[0-9, ]{3,12}\\." } }],
    { structuredOutput: { json: { type: "array", items: { type: "integer" }, maxItems: 4 } } },
    { structuredOutput: { choice: ["one", "on the one hand", "two"] } },
  ],
  [{}, { cacheSalt: "a" }, { streamInterval: 3 }, { skipReadingPrefixCache: true }],
  [{ maxTokens: 3 }, { maxTokens: 9 }, { maxTokens: 20 }],
];

function randomOptions(dice: Dice): GenerateOptions {
  const parts = CHOICES.map((choice) => dice.pick(choice) ?? {});
  const options = Object.assign({}, ...parts) as GenerateOptions;
  const { minTokens = 0, maxTokens, n = 1, temperature } = options;
  return {
    ...options,
    minTokens: Math.min(minTokens, maxTokens ?? minTokens),
    n: temperature === 0 ? 1 : n,
  };
}

/** A random place in each sequence, with at least one that goes on; null: nothing can be cut. */
function randomCut(dice: Dice, whole: Run): number[] | null {
  const lengths = whole.items.map((list) => list.length);
  for (let attempt = 0; attempt < 20; attempt++) {
    const cut = lengths.map((length) => dice.below(length + 1));
    if (generatedBefore(whole, cut).some(({ ended }) => ended !== true)) return cut;
  }
  return null;
}

test.for(SEEDS)("[CL110] random options and cuts, seed %i", async (seed) => {
  const dice = new Dice(seed);
  const options = randomOptions(dice);
  const [first] = models;
  const prompt = dice.pick(PROMPTS) ?? "A";
  const whole = await run(first ?? missing(), prompt, options, dice.below(2 ** 31));
  const moves = Array.from({ length: 4 }, async () => {
    const cut = randomCut(dice, whole);
    const model = dice.pick(models) ?? missing();
    // Several at once share steps, blocks and host memory.
    if (cut !== null) await goOn(model, whole, cut);
  });
  await Promise.all(moves);
  for (const model of models) {
    await expect.poll(() => model.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
  }
});

function missing(): never {
  throw new Error("No model");
}
