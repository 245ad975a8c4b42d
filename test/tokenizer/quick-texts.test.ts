/** A checkpoint's own patterns never run where they cannot be stopped. */
import { existsSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock, systemTimer } from "#base";
import { TextPool, Tokenizer } from "#tokenizer";
import { ModelCodec } from "../../src/engine/caller/model-codec.ts";
import { tokenizerJson } from "./fixtures.ts";

const json = JSON.parse(tokenizerJson("gpt2-byte-bpe"));
const split = (Regex: string) => ({
  ...{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false },
});
const exponential = { ...json, pre_tokenizer: split("(a+)+$") };
const replace = (literal: string, content: string) => ({
  ...{ type: "Replace", pattern: { String: literal }, content },
});
const many = (part: object) => ({ type: "Sequence", normalizers: Array(8).fill(part) });

const quick = (parts: object) =>
  new Tokenizer({ tokenizerJson: { ...json, ...parts } }).encodesQuickly;

test.each(["gpt2-byte-bpe", "llama2-style-sp-bpe", "llama3-style-byte-bpe", "bert-wordpiece"])(
  "short texts of %s are encoded on any thread",
  (kind) => {
    expect(new Tokenizer({ tokenizerJson: tokenizerJson(kind) }).encodesQuickly).toBe(true);
  },
);

test.each([
  ["a repeated group", { pre_tokenizer: split("(a+)+$") }],
  [
    "one inside a sequence",
    { pre_tokenizer: { type: "Sequence", pretokenizers: [split("x*x*")] } },
  ],
  ["a pattern of a normalizer", { normalizer: { ...replace("a", "b"), pattern: { Regex: "a" } } }],
  ["replacements that grow", { normalizer: many(replace("a", "aaaa")) }],
  ["a replacement of nothing", { normalizer: replace("", "aaaa") }],
])("those of a tokenizer with %s are not", (_, parts) => {
  expect(quick(parts)).toBe(false);
});

test("replacements may lengthen a text sixteen times, all together", () => {
  expect(quick({ normalizer: many(replace("ab", "abc")) })).toBe(false);
  expect(quick({ normalizer: many(replace(" ", "_")) })).toBe(true);
});

// The threads run built code.
describe.runIf(existsSync("dist/tokenizer/text-thread.js"))("an exponential pattern", () => {
  test("is stopped by the deadline, and the calling thread goes on", async () => {
    const pool = new TextPool(
      { files: { tokenizerJson: exponential }, template: null, toolTemplate: null },
      {
        ...{ textWorkers: 1, textDeadlineMs: 300, textQueueMax: 10, textMemoryBytes: 2 ** 28 },
        ...{ clock: systemClock, timer: systemTimer },
      },
    );
    onTestFinished(() => pool.close());
    const tokenizer = new Tokenizer({ tokenizerJson: exponential });
    const codec = new ModelCodec(tokenizer, pool, () => 2 ** 20);
    const text = `${"a".repeat(40)}b`;
    const refused = expect.objectContaining({ message: expect.stringContaining("textDeadlineMs") });
    await expect(codec.encode(text)).rejects.toThrow(refused);
    await expect(codec.encodeAll([text])).rejects.toThrow(refused);
    expect(await codec.encode("ab")).toEqual(tokenizer.encodeNow("ab"));
  });
});
