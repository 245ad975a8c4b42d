/** Loading, closing, and what runs where. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions, type LoadProgress } from "#engine";
import { writeRandomModel } from "../../bench/random-gguf.mjs";
import { SHAPES } from "../../bench/shapes.mjs";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";

const run = promisify(execFile);
const inline = { engineThread: false } as const;
const greedy = { temperature: 0, maxTokens: 24, minTokens: 24 };
/** The thread and other processes run built code. */
const built = existsSync("dist/engine/thread/engine-thread.js");
const { cases } = openRecordedModel("llama");
const recorded = { promptTokenIds: cases[1]?.prompt ?? [] };

/** Likeliest continuations, of a model that is closed afterwards. */
async function continueGreedily(options: LoadOptions): Promise<readonly number[]> {
  await using llm = await LLM.load(fixturePath("llama"), options);
  const [result] = await llm.generate(recorded, greedy);
  return result?.completions[0]?.tokenIds ?? [];
}

test.for<[string, LoadOptions, string, string]>([
  ["bfloat16", { dtype: "bfloat16" }, "bf16", "bf16"],
  ["int8", { quantization: "int8" }, "q8", "bf16"],
  ["float32 with f16 keys", { kvCache: { dtype: "float16" } }, "f32", "f16"],
])("%s runs on cpu and agrees with float32 at first", async ([, options, weights, keys]) => {
  await using llm = await LLM.load(fixturePath("llama"), { device: "cpu", ...inline, ...options });
  expect(llm.info).toMatchObject({ weightFormat: weights, kvFormat: keys });
  const [result] = await llm.generate(recorded, greedy);
  const tokens = result?.completions[0]?.tokenIds ?? [];
  expect(tokens).toHaveLength(24);
  expect(tokens[0]).toBe(cases[1]?.greedy[0]);
});

test("a checkpoint without a tokenizer works on token ids, and says so", async () => {
  const warnings: string[] = [];
  const onWarning = (message: string) => warnings.push(message);
  await using llm = await LLM.load(fixturePath("llama"), { ...inline, onWarning });
  expect(warnings.join()).toContain("no tokenizer.json");
  expect(llm.codec).toBeNull();
  const [result] = await llm.generate(recorded, greedy);
  expect(result?.completions[0]?.text).toBeNull();
  for (const ask of [
    () => llm.generate("text"),
    () => llm.generate(recorded, { stop: "x" }),
    () => llm.generate(recorded, { structuredOutput: { regex: "x" } }),
    () => llm.generate(recorded, { badWords: ["x"] }),
    () => llm.chatPrompt([{ role: "user", content: "x" }]),
  ]) {
    await expect(ask()).rejects.toMatchObject({ code: "TOKENIZER_MISSING" });
  }
});

test.for(["q8_0", "q4_k_m"])(
  "progress of %s goes from little to all, in the file's bytes",
  async (type) => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-progress-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "model.gguf");
    writeRandomModel(SHAPES.blocks, "blocks", { [type]: file });
    const seen: LoadProgress[] = [];
    const onProgress = (progress: LoadProgress) => seen.push(progress);
    await using _llm = await LLM.load(file, { device: "cpu", ...inline, onProgress });
    const weights = seen.filter(({ part }) => part === "weights");
    const shares = weights.map(({ done, total }) => done / total);
    expect(shares).toEqual(shares.toSorted((left, right) => left - right));
    expect(new Set(shares).size).toBeGreaterThan(10);
    expect(shares[0]).toBeLessThan(0.5);
    expect(shares.at(-1)).toBe(1);
    const { total } = weights[0] ?? expect.fail();
    expect(total / statSync(file).size).toBeGreaterThan(0.9);
  },
);

test("an encoder embeds as recorded, and does not generate", async () => {
  const encoder = openRecordedModel("bert-encoder");
  await using llm = await LLM.load(fixturePath("bert-encoder"), { ...inline, dtype: "float32" });
  const prompts = encoder.cases.map(({ prompt }) => ({ promptTokenIds: prompt }));
  const results = await llm.embed(prompts);
  for (const [place, { tensor }] of encoder.cases.entries()) {
    const expected = tensor("mean_pooled_normalised");
    results[place]?.embedding.forEach((value, column) => {
      expect(value).toBeCloseTo(expected[column] ?? Number.NaN, 4);
    });
  }
  await expect(llm.generate(prompts[0] ?? "")).rejects.toThrow("must be a decoder");
  const long = { promptTokenIds: new Array<number>(100_000).fill(1) };
  await expect(llm.embed([long])).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
});

test("draining finishes what runs and refuses what comes", async () => {
  await using llm = await LLM.load(fixturePath("llama"), inline);
  const running = llm.generate(recorded, greedy);
  await new Promise((resolve) => setImmediate(resolve));
  const drained = llm.drain();
  expect(llm.health()).toEqual({ state: "draining" });
  await expect(llm.generate(recorded)).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
  await expect(llm.embed([recorded])).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
  await drained;
  const [result] = await running;
  expect(result?.completions[0]?.tokenIds).toHaveLength(24);
});

test("closing fails what runs, refuses what comes, and may be done twice", async () => {
  const llm = await LLM.load(fixturePath("llama"), inline);
  const running = llm.generate(recorded, { maxTokens: 100, ignoreEos: true });
  running.catch(() => {}); // awaited below
  await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([llm[Symbol.asyncDispose](), llm[Symbol.asyncDispose]()]);
  await llm[Symbol.asyncDispose]();
  await expect(running).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
  await expect(llm.generate(recorded)).rejects.toMatchObject({ code: "ENGINE_DEAD" });
  expect(llm.health()).toEqual({ state: "dead", reason: "closed" });
});

test("a full queue refuses, and serves those it took", async () => {
  const scheduler = { waitingSequencesMax: 2, runningSequencesMax: 1 };
  await using llm = await LLM.load(fixturePath("llama"), { ...inline, scheduler });
  const all = await Promise.allSettled(
    Array.from({ length: 6 }, () => llm.generate(recorded, greedy)),
  );
  const refused = all.filter((result) => result.status === "rejected");
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(6);
  for (const { reason } of refused) expect(reason).toMatchObject({ code: "QUEUE_FULL" });
});

test("a list longer than the queue is served, a few at a time", async () => {
  const scheduler = { waitingSequencesMax: 3, runningSequencesMax: 1 };
  await using llm = await LLM.load(fixturePath("llama"), { ...inline, scheduler });
  const prompts = Array.from({ length: 10 }, () => recorded);
  const options = { maxTokens: 4, temperature: 1, n: 2, seed: 1 };
  const results = await llm.generate(prompts, options);
  expect(results).toHaveLength(10);
  const texts = results.map(({ completions }) => completions.map(({ tokenIds }) => tokenIds));
  for (const text of texts) expect(text).toEqual(texts[0]);
  expect(await llm.embed(prompts)).toHaveLength(10);
  const bad = { promptTokenIds: [-1] };
  await expect(llm.generate([recorded, bad, ...prompts], greedy)).rejects.toThrow("prompt");
});

test("requests of other salts share no blocks", async () => {
  await using llm = await LLM.load(fixturePath("llama"), inline);
  const prompt = { promptTokenIds: cases[3]?.prompt ?? [] };
  const cached = async (cacheSalt?: string) => {
    const options = { maxTokens: 1, ...(cacheSalt === undefined ? {} : { cacheSalt }) };
    return (await llm.generate(prompt, options))[0]?.cachedTokens;
  };
  // All but the last token, which is always computed; the last block in part.
  const all = prompt.promptTokenIds.length - 1;
  expect([await cached("a"), await cached("a"), await cached("b"), await cached()]).toEqual([
    0,
    all,
    0,
    0,
  ]);
});

test("listeners hear of steps, tokens and ends, until they stop listening", async () => {
  const plain: LoadOptions = { ...inline, speculative: { kind: "off" } };
  await using llm = await LLM.load(fixturePath("llama"), plain);
  const heard = { steps: 0, first: 0, tokens: 0, ends: 0 };
  const stop = llm.listen({
    onStep: () => heard.steps++,
    onFirstToken: () => heard.first++,
    onTokens: (_id, count) => {
      heard.tokens += count;
    },
    onRequestEnd: (times, summary) => {
      heard.ends++;
      expect(times.endToEndSeconds).toBeGreaterThanOrEqual(times.decodeSeconds);
      expect(summary).toMatchObject({ generatedTokens: 24, finishReasons: ["length"], n: 1 });
    },
  });
  await llm.generate(recorded, greedy);
  stop();
  await llm.generate(recorded, greedy);
  expect(heard).toEqual({ steps: 24, first: 1, tokens: 23, ends: 1 });
});

describe("what cannot be loaded is an error that says why", () => {
  test.for<[string, string, LoadOptions, string, string]>([
    ["a path that is not there", "nowhere/at/all", {}, "MODEL_NOT_FOUND", "nowhere/at/all"],
    ["a folder without a model", "test/fixtures", {}, "MODEL_NOT_FOUND", "test/fixtures"],
    ["a wrong option", "models/pocket", { threads: 0 }, "INVALID_ARGUMENT", "threads"],
    [
      "an impossible schedule",
      "models/pocket",
      { scheduler: { chunkedPrefill: false } },
      "INVALID_ARGUMENT",
      "stepTokensMax",
    ],
    [
      "a broken template",
      "models/pocket",
      { chatTemplate: "{% if" },
      "INVALID_ARGUMENT",
      "emplate",
    ],
    [
      "a pool without room for a block",
      "models/pocket",
      { kvCache: { poolBytes: 10 } },
      "INVALID_ARGUMENT",
      "raise poolBytes",
    ],
    [
      "a pool larger than memory",
      "models/pocket",
      { kvCache: { poolBytes: 2 ** 50 } },
      "INVALID_ARGUMENT",
      "lower poolBytes",
    ],
  ])("%s", async ([, model, options, code, named]) => {
    const loading = LLM.load(model, { ...inline, ...options });
    await expect(loading).rejects.toMatchObject({ code });
    await expect(loading).rejects.toThrow(named);
  });
});

describe.runIf(built)("in its own thread", () => {
  test("the engine gives the same tokens", async () => {
    expect(await continueGreedily({ dtype: "float32" })).toEqual(cases[1]?.greedy);
  });

  test("errors of loading cross the border, from either side", async () => {
    const chatTemplate = "{% if";
    await expect(LLM.load("models/pocket", { chatTemplate })).rejects.toThrow("emplate");
    const loading = LLM.load("models/pocket", { kvCache: { poolBytes: 10 } });
    await expect(loading).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "poolBytes" });
  });

  test("aborted requests free their blocks, and the books say so", async () => {
    await using llm = await LLM.load("models/pocket");
    const stop = new AbortController();
    const texts = ["one", "two", "three"];
    const options = { maxTokens: 1000, ignoreEos: true, signal: stop.signal };
    const results = llm.generate(texts, options);
    await expect.poll(() => llm.stats().heldBlocks).toBeGreaterThan(0);
    stop.abort(new Error("enough"));
    await expect(results).rejects.toThrow("enough");
    await expect.poll(() => llm.stats()).toMatchObject({ heldBlocks: 0, running: 0 });
  });

  test("structured output works, though the vocabulary is here and the engine there", async () => {
    await using llm = await LLM.load("models/pocket");
    const structuredOutput = { choice: ["left", "right"] };
    const [result] = await llm.generate("Turn", { structuredOutput });
    expect(["left", "right"]).toContain(result?.completions[0]?.text);
  });

  test("a model that is never closed does not keep the process", async () => {
    const script = `
      import { LLM } from "./dist/index.js";
      const llm = await LLM.load("models/pocket");
      const [result] = await llm.generate("Hello", { maxTokens: 3, temperature: 0 });
      console.log(result.completions[0].tokenIds.length);`;
    const { stdout, stderr } = await run(process.execPath, ["--input-type=module", "-e", script]);
    expect([stdout.trim(), stderr]).toEqual(["3", ""]);
  });
});

describe("weights that are made up", () => {
  const config = join(fixturePath("llama"), "config.json");
  const tokensOn = async (device: "cpu" | "reference", model = config) => {
    const options = { ...inline, device, randomWeights: true, dtype: "float32" } as const;
    await using llm = await LLM.load(model, options);
    expect(llm.info).toMatchObject({ name: "llama", weightFormat: "f32", hasTokenizer: false });
    const [result] = await llm.generate(recorded, greedy);
    return result?.completions[0]?.tokenIds ?? [];
  };

  test("need no more than a config.json, and are the same everywhere", async () => {
    const tokens = await tokensOn("cpu");
    expect(new Set(tokens).size).toBeGreaterThan(4);
    expect(await tokensOn("reference")).toEqual(tokens);
    expect(await tokensOn("cpu", fixturePath("llama"))).toEqual(tokens);
  });

  test("are kept in bfloat16 unless asked, also by an encoder", async () => {
    for (const name of ["llama", "bert-encoder"]) {
      const path = join(fixturePath(name), "config.json");
      await using llm = await LLM.load(path, { ...inline, device: "cpu", randomWeights: true });
      expect(llm.info.weightFormat).toBe("bf16");
      const [first] = await llm.embed([recorded]);
      expect(first?.embedding.every(Number.isFinite)).toBe(true);
    }
  });

  test("are not there without being asked for", async () => {
    await expect(LLM.load(config, inline)).rejects.toThrow("randomWeights (--random-weights)");
  });
});
