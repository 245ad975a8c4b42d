/** `LLM` over the bundled model: what callers ask, and what they get. */
import { getEventListeners } from "node:events";
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { uniformAt } from "#base";
import { type GenerateOptions, LLM, type StreamItem } from "#engine";
import { sized } from "../support/full.ts";

const prompt = "A hash table stores";
const greedy = { temperature: 0, maxTokens: 16 };
/** Streams that leave at random moments. */
const LEAVING = sized(60, 200);

let llm: LLM;

beforeAll(async () => {
  // A step gives each sequence one token: what a stream's pieces are is tested to the token.
  const speculative = { kind: "off" } as const;
  llm = await LLM.load("models/pocket", { dtype: "float32", engineThread: false, speculative });
});

afterAll(async () => {
  await llm?.[Symbol.asyncDispose]();
});

afterEach(async () => {
  // Whatever a test did, nothing may be left of it.
  await expect.poll(() => llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});

async function complete(options: GenerateOptions, text = prompt) {
  const [result] = await llm.generate(text, options);
  const completion = result?.completions[0];
  if (completion === undefined) throw new Error("No completion");
  return completion;
}

async function itemsOf(options: GenerateOptions): Promise<StreamItem[]> {
  const items: StreamItem[] = [];
  for await (const item of llm.stream(prompt, options)) items.push(item);
  return items;
}

describe("text and tokens", () => {
  test("a stream's pieces are the completion", async () => {
    const whole = await complete(greedy);
    const items = await itemsOf(greedy);
    expect(items.map(({ text }) => text).join("")).toBe(whole.text);
    expect(items.flatMap(({ tokenIds }) => tokenIds)).toEqual(whole.tokenIds);
    expect(items.length).toBeGreaterThan(1);
    expect(items.slice(0, -1).every(({ finishReason }) => finishReason === null)).toBe(true);
    expect(items.at(-1)?.finishReason).toBe("length");
  });

  test("prompt and completion together read as if decoded at once", async () => {
    const { text, tokenIds } = await complete(greedy);
    const ids = (await llm.codec?.encode(prompt)) ?? [];
    expect(`${prompt}${text}`).toBe(llm.codec?.decode([...ids, ...tokenIds]));
  });

  test("streamInterval joins tokens, but lets the first and the last through", async () => {
    const items = await itemsOf({ ...greedy, streamInterval: 6, logprobs: 0 });
    expect(items.map(({ tokenIds }) => tokenIds.length)).toEqual([1, 6, 6, 3]);
    expect(items.map(({ logprobs }) => logprobs?.length)).toEqual([1, 6, 6, 3]);
    expect(items.map(({ text }) => text).join("")).toBe((await complete(greedy)).text);
  });

  test("a stop string ends the text before it, or behind it where that is asked for", async () => {
    const whole = await complete(greedy);
    const stop = whole.text?.slice(10, 14) ?? "";
    const at = whole.text?.indexOf(stop) ?? 0;
    const cut = await complete({ ...greedy, stop });
    expect(cut).toMatchObject({
      text: whole.text?.slice(0, at),
      finishReason: "stop",
      stopReason: stop,
    });
    const kept = await complete({ ...greedy, stop, includeStopStrInOutput: true });
    expect(kept.text).toBe(whole.text?.slice(0, at + stop.length));
    const late = await complete({ ...greedy, stop, minTokens: 16 });
    expect(late.text?.startsWith(whole.text?.slice(0, at + stop.length) ?? "?")).toBe(true);
  });

  test("a stop token is in the ids and not in the text", async () => {
    const whole = await complete(greedy);
    const id = whole.tokenIds[3] ?? 0;
    const place = whole.tokenIds.indexOf(id);
    const cut = await complete({ ...greedy, stopTokenIds: [id] });
    expect(cut).toMatchObject({ finishReason: "stop", stopReason: id });
    expect(cut.tokenIds).toEqual(whole.tokenIds.slice(0, place + 1));
    expect(cut.text).toBe(llm.codec?.decode(whole.tokenIds.slice(0, place)));
    const kept = await complete({ ...greedy, stopTokenIds: [id], includeStopStrInOutput: true });
    expect(kept.text).toBe(llm.codec?.decode(whole.tokenIds.slice(0, place + 1)));
  });

  test("output that repeats itself is ended, with all of its text", async () => {
    const repetitionDetection = { patternTokensMax: 4, count: 3 };
    const bias = { 593: 100 };
    const ended = await complete({ maxTokens: 50, logitBias: bias, repetitionDetection });
    expect(ended).toMatchObject({ finishReason: "stop", stopReason: "repetition" });
    expect(ended.tokenIds).toEqual([593, 593, 593]);
    expect(ended.text).toBe(llm.codec?.decode([593, 593, 593]));
  });

  test("bad words, allowed tokens and a bias change what is sampled", async () => {
    const whole = await complete(greedy);
    const word = whole.text?.trim().split(" ")[0] ?? "";
    const without = await complete({ ...greedy, badWords: [word] });
    expect(without.text?.split(/\s+/)).not.toContain(word);
    const allowed = await complete({ ...greedy, allowedTokenIds: [40, 41] });
    expect(allowed.tokenIds.every((id) => id === 40 || id === 41)).toBe(true);
  });

  test("without detokenizing there are ids only", async () => {
    const bare = await complete({ ...greedy, detokenize: false });
    expect(bare.text).toBeNull();
    expect(bare.tokenIds).toEqual((await complete(greedy)).tokenIds);
  });
});

describe("chance", () => {
  const sampled = { temperature: 1, maxTokens: 12, seed: 7 };

  test("sequence i of a request is sampled as a request with seed + i, whatever else runs", async () => {
    const alone = await Promise.all(
      [7, 8, 9].map(async (seed) => (await complete({ ...sampled, seed })).tokenIds),
    );
    const noise = [1, 2, 3, 4].map((seed) => complete({ maxTokens: 20, seed }, `Noise ${seed}`));
    const [together] = await llm.generate(prompt, { ...sampled, n: 3 });
    await Promise.all(noise);
    expect(together?.completions.map(({ tokenIds }) => tokenIds)).toEqual(alone);
    expect(new Set(alone.map(String)).size).toBe(3);
  });

  test("without a seed two requests differ", async () => {
    const [a, b] = await llm.generate([prompt, prompt], { temperature: 1, maxTokens: 24 });
    expect(a?.completions[0]?.tokenIds).not.toEqual(b?.completions[0]?.tokenIds);
  });
});

describe("log-probabilities", () => {
  test("are those of the model's logits, for prompt and completion", async () => {
    const { logits, rows } = await llm.promptLogits(prompt);
    const columns = llm.info.vocabularySize;
    const row = (place: number) => logits.subarray(place * columns, (place + 1) * columns);
    const [result] = await llm.generate(prompt, { ...greedy, logprobs: 3, promptLogprobs: 2 });
    expect(result?.promptTokenIds).toHaveLength(rows);
    expect(result?.promptLogprobs?.[0]).toBeNull();
    for (let place = 1; place < rows; place++) {
      const entry = result?.promptLogprobs?.[place];
      const id = result?.promptTokenIds[place] ?? 0;
      expect(entry?.tokenId).toBe(id);
      expect(entry?.logprob).toBeCloseTo(logprobOf(row(place - 1), id), 3);
      expect(entry?.top).toHaveLength(2);
    }
    const first = result?.completions[0]?.logprobs?.[0];
    expect(first?.rank).toBe(1);
    expect(first?.top[0]).toEqual({ tokenId: first?.tokenId, logprob: first?.logprob, rank: 1 });
    expect(first?.logprob).toBeCloseTo(logprobOf(row(rows - 1), first?.tokenId ?? 0), 3);
    expect(result?.completions[0]?.logprobs).toHaveLength(16);
  });

  test("of a prompt are complete though its blocks are cached", async () => {
    const text =
      "A queue keeps items in the order in which they came, first in, first out, always.";
    await llm.generate(text, greedy);
    const [result] = await llm.generate(text, { ...greedy, promptLogprobs: 0, n: 1 });
    expect(result?.promptLogprobs?.slice(1).every((entry) => entry !== null)).toBe(true);
    const { logits } = await llm.promptLogits(text);
    expect(logits.subarray(0, 100).some((value) => value !== 0)).toBe(true);
  });

  test("can be asked for by token", async () => {
    const { logprobs } = await complete({ ...greedy, logprobTokenIds: [5, 6] });
    expect(logprobs?.[0]?.top.map(({ tokenId }) => tokenId)).toEqual([5, 6]);
  });

  test("sum up to the cumulative one, which is there when they are", async () => {
    const with0 = await complete({ ...greedy, logprobs: 0 });
    const sum = with0.logprobs?.reduce((total, { logprob }) => total + logprob, 0);
    expect(with0.cumulativeLogprob).toBeCloseTo(sum ?? Number.NaN, 6);
    expect((await complete(greedy)).cumulativeLogprob).toBeNull();
  });
});

describe("structured output", () => {
  const question = [{ role: "user", content: "Name a city and how many people live there." }];

  test("JSON obeys its schema and ends by itself", async () => {
    const json = {
      type: "object",
      properties: { city: { type: "string", maxLength: 20 }, people: { type: "integer" } },
      required: ["city", "people"],
      additionalProperties: false,
    };
    const chat = await llm.chatPrompt(question);
    const options = { temperature: 1, maxTokens: 200, n: 3, seed: 3, structuredOutput: { json } };
    const [result] = await llm.generate(chat, options);
    for (const { text, finishReason } of result?.completions ?? []) {
      expect(finishReason).toBe("stop");
      expect(JSON.parse(text ?? "")).toEqual({
        city: expect.any(String),
        people: expect.any(Number),
      });
    }
  });

  test("a regular expression and a choice are obeyed, in one batch with free text", async () => {
    const [date, choice, free] = await Promise.all([
      complete({ maxTokens: 30, structuredOutput: { regex: "\\d{4}-\\d{2}-\\d{2}" } }),
      complete({ maxTokens: 30, structuredOutput: { choice: ["red", "green"] } }),
      complete(greedy),
    ]);
    expect(date.text).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(["red", "green"]).toContain(choice.text);
    expect(free.tokenIds).toEqual((await complete(greedy)).tokenIds);
  });

  test("a finished grammar ends the output, whatever the stop rules say", async () => {
    const structuredOutput = { choice: ["yes"] };
    for (const rules of [{ ignoreEos: true }, { minTokens: 20 }]) {
      const ended = await complete({ maxTokens: 30, structuredOutput, ...rules });
      expect(ended).toMatchObject({ text: "yes", finishReason: "stop" });
    }
  });

  test("a grammar that cannot be read fails its request only", async () => {
    const bad = complete({ structuredOutput: { grammar: "root ::= (" } });
    await expect(bad).rejects.toMatchObject({ code: "GRAMMAR_INVALID" });
    expect((await complete(greedy)).finishReason).toBe("length");
  });
});

describe("wishes that contradict each other", () => {
  const word = "the";
  const idsOf = async (text: string) => (await llm.codec?.encode(text)) ?? [];

  test("a choice and allowed tokens that share none are refused, and others go on", async () => {
    const other = complete(greedy);
    const allowedTokenIds = await idsOf("x");
    const both = complete({ structuredOutput: { choice: ["yes", "no"] }, allowedTokenIds });
    await expect(both).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param: "allowedTokenIds",
    });
    expect((await other).finishReason).toBe("length");
  });

  test("allowed tokens that are all bad words are refused, not sampled", async () => {
    const allowedTokenIds = await idsOf(` ${word}`);
    expect(allowedTokenIds).toHaveLength(1);
    const none = complete({ allowedTokenIds, badWords: [word] });
    await expect(none).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param: "allowedTokenIds",
    });
  });

  test("so many samples that they could never wait are refused before they are made", async () => {
    for (const wish of [{ n: 1025 }, { n: 16_384, logprobs: 20 }]) {
      const many = complete({ ...wish, maxTokens: 1 });
      await expect(many).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "n" });
    }
  });

  test("more log-probabilities of a prompt than may be asked for are refused", async () => {
    const promptTokenIds = Array.from({ length: 100 }, () => 5);
    const all = llm.generate({ promptTokenIds }, { maxTokens: 1, promptLogprobs: -1 });
    await expect(all).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "promptLogprobs" });
    const [some] = await llm.generate({ promptTokenIds }, { maxTokens: 1, promptLogprobs: 20 });
    expect(some?.promptLogprobs).toHaveLength(100);
  });
});

describe("leaving", () => {
  test.for([
    ["cacheSalt", 5],
    ["cacheSalt", {}],
    ["cacheSalt", "s".repeat(1025)],
    ["cacheSalt", "half a pair \ud800"],
    ["requestId", "r".repeat(1025)],
    ["priority", Number.NaN],
    ["priority", "high"],
    ["requestId", {}],
    ["signal", 5],
    ["signal", null],
  ] as const)("%s cannot be %j, and other requests go on", async ([param, value]) => {
    const wrong = { maxTokens: 1, [param]: value } as GenerateOptions;
    for (const prompts of [prompt, []]) {
      await expect(llm.generate(prompts, wrong)).rejects.toMatchObject({
        ...{ code: "INVALID_ARGUMENT", param },
      });
    }
    await expect(llm.stream(prompt, wrong).next()).rejects.toMatchObject({ param });
    expect((await llm.generate(prompt, { maxTokens: 1 }))[0]?.completions).toHaveLength(1);
  });

  test("a salt may have any characters", async () => {
    const ids = { promptTokenIds: Array.from({ length: 33 }, (_, place) => place + 5) };
    for (const cacheSalt of ["a\nb", "\ntenant", "1\n", "\0", "\u2028 😀", "s".repeat(1024)]) {
      const ask = () => llm.generate(ids, { maxTokens: 1, cacheSalt });
      expect((await ask())[0]?.cachedTokens).toBe(0);
      expect((await ask())[0]?.cachedTokens).toBeGreaterThan(15);
    }
  });

  test.for([5, null, {}, [1, 2], { promptTokenIds: "1, 2" }])("%j is no prompt", async (wrong) => {
    const refusal = { code: "INVALID_ARGUMENT", param: "prompt" };
    for (const prompts of [wrong, [wrong]]) {
      await expect(llm.generate(prompts as never)).rejects.toMatchObject(refusal);
    }
    await expect(llm.stream(wrong as never).next()).rejects.toMatchObject(refusal);
    await expect(llm.embed([wrong as never])).rejects.toMatchObject(refusal);
  });

  test("ids that the caller changes after the call are those of the call", async () => {
    const ids = [5, 6, 7];
    const result = llm.generate({ promptTokenIds: ids }, { maxTokens: 1, detokenize: false });
    for (let turn = 0; turn < 8; turn++) {
      await Promise.resolve();
      ids[1] = 10 ** 6 + turn;
    }
    // Either they were refused, or those were used that were checked.
    const [got] = await result.catch((error) => {
      expect(error).toMatchObject({ code: "INVALID_ARGUMENT", param: "prompt" });
      return [];
    });
    if (got !== undefined) expect(got.promptTokenIds).toEqual([5, 6, 7]);
  });

  test("a signal keeps nothing of the calls that it was given to", async () => {
    const { signal } = new AbortController();
    for (let call = 0; call < 3; call++) await llm.generate(prompt, { maxTokens: 1, signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("a signal that was aborted before starts nothing", async () => {
    const signal = AbortSignal.abort(new Error("too late"));
    await expect(llm.generate(prompt, { signal })).rejects.toThrow("too late");
  });

  test("a signal aborted while the prompt is encoded starts nothing", async () => {
    const stop = new AbortController();
    const result = llm.generate(prompt, { signal: stop.signal });
    stop.abort(new Error("never mind"));
    await expect(result).rejects.toThrow("never mind");
  });

  test("a signal aborted in the middle ends the stream with its reason", async () => {
    const stop = new AbortController();
    const read = async () => {
      for await (const item of llm.stream(prompt, { maxTokens: 500, signal: stop.signal })) {
        if (item.tokenIds.length > 0) stop.abort(new Error("enough"));
      }
    };
    await expect(read()).rejects.toThrow("enough");
  });

  test("a loop that is left cancels the request", async () => {
    for await (const item of llm.stream(prompt, { maxTokens: 500 })) {
      expect(item.index).toBe(0);
      break;
    }
  });

  test("one failing prompt of a batch cancels the others", async () => {
    const bad = { promptTokenIds: [llm.info.vocabularySize] };
    const batch = llm.generate([prompt, bad, prompt], { maxTokens: 500 });
    await expect(batch).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "prompt" });
  });

  test("a request id may be used again when its request ended, not before", async () => {
    const options = { ...greedy, requestId: "mine" };
    const first = llm.generate(prompt, options);
    await expect(llm.generate(prompt, options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const [done] = await first;
    expect(done?.requestId).toBe("mine");
    await llm.generate(prompt, options);
    await expect(llm.generate("", { ...options, maxTokens: -1 })).rejects.toThrow("maxTokens");
    await llm.generate(prompt, options);
  });

  test(`${LEAVING} streams that leave at random moments hold nothing`, {
    timeout: 60_000,
  }, async () => {
    const structured = { structuredOutput: { regex: "[a-z ]{300}" } };
    const streams = Array.from({ length: LEAVING }, async (_, place) => {
      const stop = new AbortController();
      const patience = Math.floor(uniformAt({ low: 17, high: 0 }, place) * 12);
      const options = {
        maxTokens: 400,
        ignoreEos: true,
        n: 1 + (place % 3),
        signal: stop.signal,
        ...(place % 5 === 0 ? structured : {}),
      };
      if (patience === 0) queueMicrotask(() => stop.abort());
      let seen = 0;
      try {
        for await (const _item of llm.stream(`${prompt} ${place}`, options)) {
          seen += 1;
          if (seen === patience && place % 2 === 0) return;
          if (seen === patience) stop.abort();
        }
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    });
    await Promise.all(streams);
    const { steps } = llm.stats();
    await expect.poll(() => llm.stats().heldBlocks).toBe(0);
    expect(llm.stats().steps - steps).toBeLessThanOrEqual(1);
    expect((await complete(greedy)).finishReason).toBe("length");
  });
});

describe("refusals", () => {
  test.for<[string, GenerateOptions, string]>([
    ["an unknown field", { temprature: 1 } as GenerateOptions, "temprature"],
    ["a token outside the vocabulary", { stopTokenIds: [4096] }, "stopTokenIds"],
    ["a logprob token outside it", { logprobTokenIds: [9999] }, "from 0 to 4095"],
    ["a thinking budget without marks", { thinkingTokenBudget: 5 }, "<think>"],
  ])("%s is named", async ([, options, named]) => {
    const refused = complete(options);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(refused).rejects.toThrow(named);
  });

  test("a prompt that can never fit is refused with both numbers", async () => {
    const promptTokenIds = new Array<number>(2048).fill(40);
    await expect(llm.generate({ promptTokenIds })).rejects.toThrow(
      "prompt must fit 2047 tokens, current value is 2048",
    );
  });

  test("an empty prompt is refused", async () => {
    await expect(llm.generate({ promptTokenIds: [] })).rejects.toThrow("at least one token");
  });
});

describe("embeddings", () => {
  test("have length 1, do not depend on the batch, and tell texts apart", async () => {
    const texts = ["A cache keeps keys.", "A cache keeps the keys.", "The weather in Lisbon"];
    const together = await llm.embed(texts);
    const alone = await llm.embed(texts.slice(0, 1));
    const [a, b, c] = together.map(({ embedding }) => embedding);
    if (a === undefined || b === undefined || c === undefined) throw new Error("Three are wanted");
    expect(dot(a, a)).toBeCloseTo(1, 4);
    expect(dot(a, alone[0]?.embedding ?? a)).toBeCloseTo(1, 4);
    expect(dot(a, b)).toBeGreaterThan(dot(a, c));
  });
});

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, place) => sum + value * (b[place] ?? 0), 0);
}

function logprobOf(logits: Float32Array, id: number): number {
  const max = logits.reduce((most, value) => Math.max(most, value));
  const sum = logits.reduce((total, value) => total + Math.exp(value - max), 0);
  return (logits[id] ?? 0) - max - Math.log(sum);
}

test("generation_config.json is read", () => {
  const file: { temperature: number } = JSON.parse(
    readFileSync("models/pocket/generation_config.json", "utf8"),
  );
  expect(llm.defaultSampling.temperature).toBe(file.temperature);
});
