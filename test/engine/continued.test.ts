/** Requests that go on from what another engine generated: every token as if nothing had happened. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { cutAt, generatedBefore, goOn, lengthOf, type Run, run } from "../support/continuing.ts";
import { cpuThreads, eachNth, sized } from "../support/full.ts";

const prompt = "A hash table stores";
const pocket = "models/pocket";
const shared: LoadOptions = { dtype: "float32", threads: cpuThreads };

/** Where requests begin; and engines of other settings, where they go on as well. */
let llm: LLM;
let others: readonly LLM[];

beforeAll(async () => {
  // Log-probabilities of tokens in a tree may differ in their last bits.
  const speculative = { kind: "off" } as const;
  llm = await LLM.load(pocket, { ...shared, engineThread: false, speculative });
  others = await Promise.all([
    // Without cached prefixes, in small chunks, and with drafts.
    LLM.load(pocket, {
      ...{ ...shared, engineThread: false, kvCache: { prefixCaching: false } },
      scheduler: { stepTokensMax: 8, runningSequencesMax: 8 },
      speculative: { kind: "lookup", adaptive: false },
    }),
    // On a thread of its own, in a pool that is too small for all.
    LLM.load(pocket, {
      ...{ ...shared, kvCache: { poolBytes: 2 ** 21 } },
      speculative: { kind: "redrafter", lengthMax: 3, width: 1, adaptive: false },
    }),
  ]);
});

const all = () => [llm, ...(others ?? [])];

afterAll(async () => {
  await Promise.all(all().map((model) => model?.close()));
});

afterEach(async () => {
  for (const model of all()) {
    await expect.poll(() => model.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
  }
});

/**
 * Cuts a run behind every item of its longest sequence, in short runs behind every other one; each
 * engine goes on in its turn.
 */
async function cutEverywhere(options: GenerateOptions, text: string = prompt): Promise<void> {
  const whole = await run(llm, text, { maxTokens: sized(14, 24), ...options });
  const length = lengthOf(whole);
  expect(length).toBeGreaterThan(2);
  for (let place = 1; place < length; place += sized(2, 1)) {
    const models = all();
    for (const model of sized([models[place % models.length] ?? llm], models)) {
      await goOn(model, whole, cutAt(whole, place));
    }
  }
}

const drawn = { seed: 7 };
const json = {
  type: "object",
  properties: { name: { type: "string", maxLength: 8 }, size: { type: "integer" } },
  required: ["name", "size"],
  additionalProperties: false,
};

const OPTIONS: readonly (readonly [string, GenerateOptions])[] = [
  ["greedy", { temperature: 0 }],
  ["a seed", drawn],
  ["the prompt's seed", {}],
  ["top k, top p and min p", { ...drawn, topK: 20, topP: 0.9, minP: 0.01, temperature: 1.5 }],
  ["penalties", { temperature: 0, presencePenalty: 0.5, frequencyPenalty: 0.7 }],
  ["a repetition penalty", { ...drawn, repetitionPenalty: 1.3 }],
  ["minTokens", { temperature: 0, minTokens: 12, maxTokens: 14 }],
  ["logit bias", { ...drawn, logitBias: { 40: 5, 41: -100 } }],
  ["allowed tokens", { ...drawn, allowedTokenIds: [40, 41, 42, 43, 200, 300] }],
  ["bad words", { temperature: 0, badWords: [" the", "key", " a"] }],
  ["log-probabilities", { ...drawn, logprobs: 3 }],
  ["log-probabilities of some", { temperature: 0, logprobTokenIds: [5, 6] }],
  ["prompt log-probabilities, told once", { temperature: 0, promptLogprobs: 1, maxTokens: 8 }],
  ["repetition", { temperature: 0, repetitionDetection: { patternTokensMax: 4, count: 3 } }],
  ["no text", { ...drawn, detokenize: false }],
  ["ignored ends", { ...drawn, ignoreEos: true, stopTokenIds: [3] }],
  ["a regular expression", { ...drawn, structuredOutput: { regex: "[a-f]{6}-[0-9]{6}" } }],
  ["a JSON schema", { ...drawn, maxTokens: 40, structuredOutput: { json } }],
  ["a choice", { ...drawn, structuredOutput: { choice: ["yes, it does", "no, it does not"] } }],
  ["an interval of the stream", { temperature: 0, streamInterval: 5 }],
  ["a salt, retention and priority", { ...drawn, cacheSalt: "s", priority: 2 }],
  ["a prediction", { temperature: 0, prediction: "keys and values in a table of keys and values" }],
];

test.for(OPTIONS)("[CL110] cut at every token, a run goes on: %s", ([, options]) =>
  cutEverywhere(options),
);

describe("[CL111] text", () => {
  /** Tokens of pieces of characters: what they spell is mostly no text. */
  const pieces = () => {
    const ids = Array.from({ length: llm.info.vocabularySize }, (_, id) => id);
    const found = ids.filter((id) => (llm.codec?.tokenBytes(id)[0] ?? 0) >= 0x80);
    expect(found.length).toBeGreaterThan(20);
    return found;
  };

  test("half characters are held back, and sent once", async () => {
    await cutEverywhere({ ...drawn, allowedTokenIds: pieces() });
    await cutEverywhere({ ...drawn, allowedTokenIds: pieces(), maxTokens: 7 });
  });

  test.for([true, false])("a stop string across the cut (kept: %s)", async (kept) => {
    const [whole] = await llm.generate(prompt, { temperature: 0, maxTokens: 24 });
    const text = whole?.completions[0]?.text ?? "";
    const places = [
      [40, 44],
      [50, 70],
    ] as const;
    for (const [start, end] of eachNth(2, places)) {
      const stop = text.slice(start, end);
      expect(text.indexOf(stop)).toBe(start);
      const includeStopStrInOutput = kept;
      await cutEverywhere({ temperature: 0, maxTokens: 24, stop, includeStopStrInOutput });
      // What looks like the beginning of a stop string is held back, and comes later.
      const almost = `${text.slice(start, end - 1)}~`;
      await cutEverywhere({ temperature: 0, stop: [almost, `${text.slice(5, 30)}~`] });
      const late = { minTokens: 20, maxTokens: 24, includeStopStrInOutput };
      await cutEverywhere({ temperature: 0, stop, ...late });
    }
  });

  test("kept special tokens, and spaces between them", async () => {
    const options = {
      ...drawn,
      allowedTokenIds: [2, 4094, 4095, 40, 41],
      skipSpecialTokens: false,
    };
    await cutEverywhere(options);
    await cutEverywhere({ ...options, spacesBetweenSpecialTokens: false });
  });
});

describe("[CL110] several sequences", () => {
  test.for([
    ["sampled", {}],
    ["with a grammar", { structuredOutput: { json }, maxTokens: 32 }],
    ["with penalties and log-probabilities", { frequencyPenalty: 1, logprobs: 1 }],
    ["with a stop string", { stop: ["e "] }],
  ] as readonly [string, GenerateOptions][])("%s, each cut elsewhere", async ([, options]) => {
    const whole = await run(llm, prompt, { n: 3, maxTokens: 16, ...options });
    const [a = 0, b = 0, c = 0] = whole.items.map((list) => list.length);
    const most = Math.max(a, b, c);
    for (let place = 0; place < most; place += sized(2, 1)) {
      const cut = [place, (place * 5 + 3) % (b + 1), (place * 11 + 7) % (c + 1)];
      const own = cut.map((count, index) => Math.min(count, whole.items[index]?.length ?? 0));
      const generated = generatedBefore(whole, own);
      if (generated.every(({ ended }) => ended)) continue;
      await goOn(all()[place % 3] ?? llm, whole, own);
    }
  });

  test("what ended elsewhere is not generated again", async () => {
    const whole = await run(llm, prompt, { n: 2, maxTokens: 6 });
    const later = await goOn(llm, whole, [6, 2]);
    expect(new Set(later.map(({ index }) => index))).toEqual(new Set([1]));
    const { promptTokenIds, seed, options } = whole;
    const generated = generatedBefore(whole, [6, 2]);
    const [result] = await llm.generate({ promptTokenIds, seed, generated }, options);
    expect(result?.completions).toHaveLength(1);
    expect(result?.completions[0]).toMatchObject({
      index: 1,
      tokenIds: whole.items[1]?.slice(2).flatMap(({ tokenIds }) => tokenIds),
      text: whole.items[1]
        ?.slice(2)
        .map(({ text }) => text)
        .join(""),
    });
  });
});

test("[CL110] thinking, and a grammar behind it", async () => {
  const folder = scratchFolder();
  cpSync(pocket, folder, { recursive: true });
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) {
    const text = readFileSync(`${folder}/${file}`, "utf8");
    const renamed = text
      .replaceAll("</tool_call>", "</think>")
      .replaceAll("<tool_call>", "<think>");
    writeFileSync(`${folder}/${file}`, renamed);
  }
  await using thinker = await LLM.load(folder, { ...shared, engineThread: false });
  const structuredOutput = { regex: "[a-c]{8}" };
  for (const text of ["Why? <think>", "Why?"]) {
    const fixed = { thinkingTokenBudget: 5, structuredOutput, maxTokens: 24 };
    const whole = await thoughtful(thinker, text, fixed);
    for (let place = 1; place < lengthOf(whole); place += sized(2, 1)) {
      await goOn(thinker, whole, cutAt(whole, place));
    }
  }
});

/** A run that thinks, and ends its thoughts: some seeds do. */
async function thoughtful(model: LLM, text: string, options: GenerateOptions): Promise<Run> {
  for (let seed = 1; seed < 100; seed++) {
    const logitBias = { 4094: seed % 16 };
    const whole = await run(model, text, { ...options, logitBias, seed });
    const ids = whole.items.flat().flatMap(({ tokenIds }) => tokenIds);
    const [opened, closed] = [ids.lastIndexOf(4094), ids.indexOf(4095)];
    if (closed > opened && closed >= 3 && closed < 12) return whole;
  }
  throw new Error("No run has thoughts that end");
}

test("[CL110] prompt and tokens that are cached are not computed again", async () => {
  const whole = await run(llm, `${prompt} keys that nobody else asked for`, { maxTokens: 40 });
  const before = llm.stats();
  const items = await goOn(llm, whole, [33]);
  const after = llm.stats();
  const length = whole.promptTokenIds.length;
  expect(after.prefixHitTokens - before.prefixHitTokens).toBeGreaterThanOrEqual(length + 16);
  expect(items[0]?.prompt.cachedTokens).toBe(length);
});

describe("[CL113] refusals", () => {
  const ids = [40, 41, 42];
  const tokens = (...tokenIds: number[]) => [{ tokenIds }];

  test.for([
    ["no list", { generated: 5 }, {}, "a list of sequences"],
    ["an entry too few", { generated: tokens(5) }, { n: 2 }, "n = 2, it has 1"],
    ["an entry too many", { generated: [...tokens(5), ...tokens(6)] }, {}, "n = 1, it has 2"],
    ["no ids", { generated: [{}] }, {}, "generated[0].tokenIds"],
    ["null", { generated: [null] }, {}, "generated[0].tokenIds"],
    ["an id outside of the vocabulary", { generated: tokens(5, 4096) }, {}, "from 0 to 4095"],
    ["half an id", { generated: tokens(0.5) }, {}, "current value is 0.5"],
    ["a word for ended", { generated: [{ tokenIds: [5], ended: "no" }] }, {}, "true or false"],
    ["nothing to do", { generated: [{ tokenIds: [5], ended: true }] }, {}, "must not be ended"],
    ["beams", { generated: tokens(5) }, { beamWidth: 2, n: 1 }, "beam search"],
    ["an end token", { generated: tokens(5, 3, 6) }, {}, "token 2 of 3 does"],
    ["a stop token", { generated: tokens(5, 6) }, { stopTokenIds: [6] }, "token 2 of 2 does"],
    ["too many tokens", { generated: tokens(5, 6) }, { maxTokens: 2 }, "token 2 of 2 does"],
    ["a wrong seed", { seed: 0.5 }, {}, "53 bits"],
    ["a text for a seed", { seed: "7" }, {}, "53 bits"],
  ] as readonly [string, object, GenerateOptions, string][])(
    "%s",
    async ([, more, options, message]) => {
      const refused = llm.generate({ promptTokenIds: ids, ...more }, options);
      await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(refused).rejects.toThrow(message);
    },
  );

  test("a stop string in the text", async () => {
    const generated = tokens(...((await llm.codec?.encode(" one two three")) ?? []));
    const refused = llm.generate({ promptTokenIds: ids, generated }, { stop: "two" });
    await expect(refused).rejects.toThrow("a stop string in their text does; give it as ended");
  });

  test("tokens that the grammar refuses end this request alone", async () => {
    const structuredOutput = { regex: "[a-c]+" };
    const other = llm.generate(prompt, { maxTokens: 8 });
    const refused = llm.generate(
      { promptTokenIds: ids, generated: tokens(300) },
      { structuredOutput },
    );
    await expect(refused).rejects.toThrow("refuses token 300");
    await expect(other).resolves.toHaveLength(1);
  });

  test.for([2047, 2048, 70_000])("%i tokens in a context of 2048", async (length) => {
    const generated = tokens(...new Array<number>(length - 3 + 1).fill(40));
    const refused = llm.generate({ promptTokenIds: ids, generated });
    await expect(refused).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
  });

  test("with nothing generated a request begins anew", async () => {
    const whole = await run(llm, prompt, { n: 2, maxTokens: 4 });
    const { promptTokenIds, seed, options, items } = whole;
    const generated = [{ tokenIds: [] }, { tokenIds: [], ended: false }];
    const [result] = await llm.generate({ promptTokenIds, seed, generated }, options);
    expect(result?.completions.map(({ tokenIds }) => tokenIds)).toEqual(
      items.map((list) => list.flatMap(({ tokenIds }) => tokenIds)),
    );
  });
});
