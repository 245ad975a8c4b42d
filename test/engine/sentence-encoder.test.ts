/** Encoders whose folders say how vectors are made give those of sentence-transformers. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { LLM } from "#engine";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";

/** Contents of JSON files by their paths in a folder. */
type Files = Readonly<Record<string, unknown>>;

interface Recorded {
  readonly texts: readonly string[];
  readonly variants: Readonly<
    Record<
      string,
      {
        readonly files: Files;
        readonly tokens: readonly number[];
        readonly vectors: readonly number[][];
      }
    >
  >;
}

const tokenizerPath = fileURLToPath(
  new URL("../fixtures/tokenizers/bert-wordpiece/tokenizer.json", import.meta.url),
);
const recorded: Recorded = JSON.parse(
  readFileSync(join(fixturePath("bert-sentence"), "expected.json"), "utf8"),
);
const { texts, variants } = recorded;
const LOWERED = "lower case first";
const CUT = "texts of 16 tokens";

function writeJson(path: string, content: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(content));
}

/** The recorded model with other files beside it. */
function folderWith(files: Files, tokenizer = readFileSync(tokenizerPath, "utf8")): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-sentence-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ["config.json", "model.safetensors"]) {
    copyFileSync(join(fixturePath("bert-sentence"), name), join(folder, name));
  }
  writeFileSync(join(folder, "tokenizer.json"), tokenizer);
  for (const [path, content] of Object.entries(files)) writeJson(join(folder, path), content);
  return folder;
}

function load(folder: string, onWarning = (_: string): void => {}): Promise<LLM> {
  const options = { device: "reference", dtype: "float32", engineThread: false } as const;
  return LLM.load(folder, { ...options, onWarning });
}

function cosine(one: ArrayLike<number>, other: ArrayLike<number>): number {
  const numbers = Array.from(one);
  const dot = numbers.reduce((sum, value, i) => sum + value * (other[i] ?? Number.NaN), 0);
  return dot / (Math.hypot(...numbers) * Math.hypot(...Array.from(other)));
}

/** The recorded folder of a variant. */
function recordedFolder(name: string): string {
  const { files } = variants[name] ?? { files: {} };
  if (name !== LOWERED) return folderWith(files);
  // It does not lower texts itself, so that nothing but the folder's word does.
  const tokenizer = JSON.parse(readFileSync(tokenizerPath, "utf8"));
  tokenizer.normalizer.lowercase = false;
  return folderWith(files, JSON.stringify(tokenizer));
}

/** A folder whose modules are of these classes. */
function modulesOf(...types: readonly string[]): Files {
  return {
    "modules.json": types.map((type, idx) => ({
      ...{ idx, name: `${idx}`, type },
      path: idx === 0 ? "" : `${idx}_${type.split(".").at(-1)}`,
    })),
    "1_Pooling/config.json": { word_embedding_dimension: 16, pooling_mode_cls_token: true },
  };
}

const st = "sentence_transformers.models";

describe("vectors are those of sentence-transformers", () => {
  const whole = Object.keys(variants).filter((name) => name !== CUT);
  test.each(whole)("%s", async (name) => {
    const { vectors, tokens } = variants[name] ?? { vectors: [], tokens: [] };
    await using llm = await load(recordedFolder(name));
    const results = await llm.embed(texts);
    expect(results.map(({ promptTokenIds }) => promptTokenIds.length)).toEqual(tokens);
    for (const [place, { embedding }] of results.entries()) {
      const expected = vectors[place] ?? [];
      expect(embedding).toHaveLength(expected.length);
      expect(llm.info.embedding?.dimensions).toBe(expected.length);
      expect(cosine(embedding, expected)).toBeGreaterThan(0.9999);
      // Not the direction alone: without Normalize the length is part of the answer.
      expect(Math.hypot(...embedding) / Math.hypot(...expected)).toBeCloseTo(1, 4);
    }
  });
});

test("max_seq_length is the longest text, and a longer one is refused, not cut in silence", async () => {
  const { vectors } = variants[CUT] ?? { vectors: [] };
  await using llm = await load(recordedFolder(CUT));
  expect(llm.info).toMatchObject({ contextTokensMax: 16, embedding: { tokensMax: 16 } });
  const [, , long = ""] = texts;
  await expect(llm.embed([long])).rejects.toMatchObject({
    code: "PROMPT_TOO_LONG",
    message: expect.stringMatching(/16 tokens.*truncate: true, over HTTP truncate_prompt_tokens/),
  });
  // Cut as sentence-transformers cuts: the start, and the separator behind it.
  const ids = (await llm.codec?.encode(long, { addSpecialTokens: true })) ?? [];
  const promptTokenIds = [...ids.slice(0, 15), ...ids.slice(-1)];
  const [result] = await llm.embed([{ promptTokenIds }]);
  expect(cosine(result?.embedding ?? [], vectors[2] ?? [])).toBeGreaterThan(0.9999);
});

test("a folder that does not say how vectors are made gives means of length 1", async () => {
  await using llm = await load(folderWith({}));
  expect(llm.info.embedding).toMatchObject({ pooling: ["mean"], normalized: true });
  const results = await llm.embed(texts);
  const expected = variants["mean of length 1"]?.vectors ?? [];
  for (const [place, { embedding }] of results.entries()) {
    expect(cosine(embedding, expected[place] ?? [])).toBeGreaterThan(0.9999);
  }
});

test("the tokenizer's model_max_length bounds texts where max_seq_length does not", async () => {
  const files = { "tokenizer_config.json": { model_max_length: 20 } };
  await using llm = await load(folderWith(files));
  expect(llm.info.contextTokensMax).toBe(20);
  // tokenizers without a limit write a number beyond all
  const boundless = { "tokenizer_config.json": { model_max_length: 1e30 } };
  await using whole = await load(folderWith(boundless));
  expect(whole.info.contextTokensMax).toBe(64);
});

describe("what nothing here computes is refused by name", () => {
  test.each<[string, Files, string]>([
    ["Dense", modulesOf(`${st}.Transformer`, `${st}.Pooling`, `${st}.Dense`), "models.Dense"],
    ["no pooling", modulesOf(`${st}.Transformer`), "models.Transformer"],
    ["a class of another package", modulesOf("custom.Transformer", `${st}.Pooling`), "custom.T"],
    [
      "an unknown mode",
      {
        ...modulesOf(`${st}.Transformer`, `${st}.Pooling`),
        "1_Pooling/config.json": { pooling_mode_attention: true },
      },
      "pooling_mode_attention",
    ],
  ])("%s", async (_, files, named) => {
    await expect(load(folderWith(files))).rejects.toMatchObject({
      code: "UNSUPPORTED_MODEL",
      message: expect.stringContaining(named),
    });
  });

  test.each<[string, Files, string]>([
    ["another size", { "1_Pooling/config.json": { word_embedding_dimension: 32 } }, "16"],
    ["a missing configuration", { "1_Pooling/config.json": null }, "1_Pooling/config.json"],
    ["a path out of the folder", { "modules.json": [{ type: "x", path: "../up" }] }, "0.path"],
    ["a list that is none", { "modules.json": {} }, "must be a list"],
    ["a length that is none", { "sentence_bert_config.json": { max_seq_length: -1 } }, "max_seq"],
  ])("%s", async (_, files, named) => {
    const modules = modulesOf(`${st}.Transformer`, `${st}.Pooling`);
    const all = Object.entries({ ...modules, ...files }).filter(([, content]) => content !== null);
    await expect(load(folderWith(Object.fromEntries(all)))).rejects.toMatchObject({
      code: "CHECKPOINT_INVALID",
      message: expect.stringContaining(named),
    });
  });
});

/** The recorded Llama with the modules of `files` beside it. */
function decoderFolder(files: Files): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-sentence-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ["config.json", "model.safetensors"]) {
    copyFileSync(join(fixturePath("llama"), name), join(folder, name));
  }
  for (const [path, content] of Object.entries(files)) writeJson(join(folder, path), content);
  return folder;
}

test("a decoder's vector is its last row where its folder says so", async () => {
  const { cases } = openRecordedModel("llama");
  const modules = modulesOf(`${st}.Transformer`, `${st}.Pooling`, `${st}.Normalize`);
  const pooling = { word_embedding_dimension: 96, pooling_mode_lasttoken: true };
  await using llm = await load(decoderFolder({ ...modules, "1_Pooling/config.json": pooling }));
  expect(llm.info.embedding).toMatchObject({ pooling: ["lasttoken"], dimensions: 96 });
  for (const { prompt, tensor } of cases) {
    const [result] = await llm.embed([{ promptTokenIds: prompt }]);
    const last = tensor("last_hidden").slice(-96);
    expect(cosine(result?.embedding ?? [], last)).toBeGreaterThan(0.9999);
    expect(Math.hypot(...(result?.embedding ?? []))).toBeCloseTo(1, 5);
  }
});

test("a decoder that cannot embed as its folder says generates, and refuses vectors", async () => {
  const modules = modulesOf(`${st}.Transformer`, `${st}.Pooling`, `${st}.Dense`);
  await using llm = await load(decoderFolder(modules));
  expect(llm.info.embedding).toBeNull();
  const prompt = { promptTokenIds: [3, 4, 5] };
  expect(await llm.generate(prompt, { maxTokens: 2 })).toHaveLength(1);
  await expect(llm.embed([prompt])).rejects.toMatchObject({
    code: "UNSUPPORTED_MODEL",
    message: expect.stringContaining("models.Dense"),
  });
});

test("a default prompt, which texts are embedded without, gets a warning with its words", async () => {
  const settings = { prompts: { query: "query: " }, default_prompt_name: "query" };
  const warnings: string[] = [];
  const folder = folderWith({ "config_sentence_transformers.json": settings });
  await using llm = await load(folder, (text) => warnings.push(text));
  expect(warnings.join()).toContain('put "query: " before each text');
  expect(await llm.embed(["a"])).toHaveLength(1);
});

describe("prompts of a call", () => {
  const modules = modulesOf(`${st}.Transformer`, `${st}.Pooling`, `${st}.Normalize`);
  const pooling = { pooling_mode_mean_tokens: true, include_prompt: false };
  const settings = { prompts: { query: "query: " } };
  const files = {
    ...{ ...modules, "1_Pooling/config.json": pooling },
    "config_sentence_transformers.json": settings,
  };

  test("are put before texts by their names or as they are, and token ids stay", async () => {
    await using llm = await load(folderWith(files));
    const [named, given] = [
      await llm.embed(["a text"], { promptName: "query" }),
      await llm.embed(["a text"], { prompt: "query: " }),
    ];
    expect(named).toEqual(given);
    const whole = await llm.embed(["query: a text"]);
    expect(named[0]?.promptTokenIds).toEqual(whole[0]?.promptTokenIds);
    // The prompt's rows are not pooled, which token ids do not tell.
    expect(named[0]?.embedding).not.toEqual(whole[0]?.embedding);
    const ids = { promptTokenIds: whole[0]?.promptTokenIds ?? [] };
    expect((await llm.embed([ids], { promptName: "query" }))[0]?.embedding).toEqual(
      whole[0]?.embedding,
    );
  });

  test("must be among the model's", async () => {
    await using llm = await load(folderWith(files));
    for (const promptName of ["document", "constructor"]) {
      await expect(llm.embed(["a"], { promptName })).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        param: "promptName",
        message: expect.stringContaining('must be one of "query"'),
      });
    }
  });

  test("a default that is none of them is an error of the file", async () => {
    const withDefault = (default_prompt_name: string) =>
      folderWith({
        ...files,
        "config_sentence_transformers.json": { prompts: {}, default_prompt_name },
      });
    const wrong = load(withDefault("title"));
    await expect(wrong).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    // These two are always there, if without words.
    await using llm = await load(withDefault("query"));
    expect(llm.info.embedding?.prompts).toEqual({});
  });

  test("longer texts are cut off at the limit, or before it, where the call says so", async () => {
    await using llm = await load(folderWith(files));
    const [, , long = ""] = texts;
    const many = long.repeat(5);
    const [all] = await llm.embed([many], { truncate: true });
    const [few] = await llm.embed([many], { truncate: 10 });
    expect([all?.promptTokenIds.length, few?.promptTokenIds.length]).toEqual([64, 10]);
    expect(few?.promptTokenIds.at(-1)).toBe(all?.promptTokenIds.at(-1));
  });
});
