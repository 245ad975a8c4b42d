/** Ids of the encoder by words, and of whole tokenizers, against Hugging Face's library. */
import { readFileSync } from "node:fs";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { describe, expect, test } from "vitest";
import { Tokenizer } from "#tokenizer";
import { forLibrary } from "../../src/tokenizer/tokenizer-files.ts";
import { WordEncoder } from "../../src/tokenizer/word-encoder.ts";
import { Dice } from "../fuzz/dice.ts";
import { sized } from "../support/full.ts";
import { hardTexts, recordedTexts, tokenizerJson, tokenizerKinds } from "./fixtures.ts";

const pocket = readFileSync("models/pocket/tokenizer.json", "utf8");
const files = new Map<string, string>([
  ["pocket", pocket],
  ...tokenizerKinds.map((kind) => [kind, tokenizerJson(kind)] as const),
]);
const SEEDS = Array.from({ length: sized(20, 400) }, (_, place) => 1 + place);

function parsed(kind: string) {
  return JSON.parse(files.get(kind) ?? "{}");
}

const PIECES: readonly string[] = [
  ...hardTexts,
  ...[
    "the",
    " The",
    "Don't",
    "we'LL",
    "'s",
    "'S",
    "''",
    "’s",
    "naïve",
    "Straße",
    "日本語",
    "한국어",
  ],
  ...[
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\n\n ",
    "\t",
    "\u0085",
    "\u00a0",
    "\u2028",
    "\ufeff",
    "\u200d",
  ],
  ...[
    "1",
    "12",
    "123",
    "1234567890",
    "3.14",
    "½",
    "Ⅷ",
    "٣٤",
    "x1y2",
    "_",
    "__init__",
    "a-b",
    "://",
  ],
  ...[
    "e\u0301",
    "\u1100\u1161",
    "ﬁ",
    "Å",
    "\u212b",
    "\ud83d",
    "\ude00",
    "\ud83d\ude00",
    "\0",
    "\u007f",
  ],
  ...[
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|im_end",
    "|>",
    "<tool_call>",
    "</tool_call>",
  ],
  ...["<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "<0x0A>", "Ġ", "▁", "##ing", "Ċ", "ĠĠ"],
];

function randomText(dice: Dice): string {
  const parts = Array.from({ length: dice.below(60) }, () => {
    const kind = dice.below(12);
    if (kind === 0) return String.fromCharCode(dice.below(0x10000));
    if (kind === 1) return String.fromCodePoint(0x10000 + dice.below(0x20000));
    if (kind === 2) return (dice.pick(PIECES) ?? "").repeat(dice.below(40));
    if (kind === 3) return String.fromCharCode(97 + dice.below(26)).repeat(dice.below(90));
    return dice.pick(PIECES) ?? "";
  });
  return parts.join(dice.below(3) === 0 ? " " : "");
}

describe.each([...files.keys()])("%s", (kind) => {
  const json = parsed(kind);
  const library = new Library(forLibrary(json), {});
  const tokenizer = new Tokenizer({ tokenizerJson: files.get(kind) ?? "" });
  const idsOf = (text: string, add_special_tokens: boolean) =>
    library.encode(text, { add_special_tokens }).ids;

  test("byte-level BPE alone is encoded by words", () => {
    const isByteLevel = /byte-bpe|pocket/.test(kind);
    expect(WordEncoder.of(json, {}, library) !== null).toBe(isByteLevel);
  });

  test.for(SEEDS)("random texts have the library's ids, seed %i", (seed) => {
    const dice = new Dice(seed);
    for (let round = 0; round < 10; round++) {
      const text = randomText(dice);
      expect(tokenizer.encodeNow(text, { addSpecialTokens: false })).toEqual(idsOf(text, false));
      expect(tokenizer.encodeNow(text)).toEqual(idsOf(text, true));
    }
  });

  test("ordinary texts have the library's ids, also when all words are known", () => {
    const texts = ["README.md", "ARCHITECTURE.md", "src/tokenizer/tokenizer.ts", "package.json"];
    for (const file of [...texts, ...texts]) {
      const text = readFileSync(file, "utf8");
      expect(tokenizer.encodeNow(text)).toEqual(idsOf(text, true));
    }
  });
});

test("more words than are kept, and again the first ones", () => {
  const tokenizer = new Tokenizer({ tokenizerJson: pocket });
  const library = new Library(forLibrary(parsed("pocket")), {});
  for (const start of [0, 20_000, 40_000, 0]) {
    const words = Array.from({ length: 20_000 }, (_, place) => ` w${spelled(start + place)}`);
    const text = words.join("");
    expect(tokenizer.encodeNow(text)).toEqual(library.encode(text).ids);
  }
});

/** A number in letters. */
function spelled(value: number): string {
  return String(value).replaceAll(/\d/g, (digit) => "abcdefghij"[Number(digit)] ?? "");
}

describe("what is unusual is left to the library", () => {
  const byteLevel = () => parsed("gpt2-byte-bpe");
  const added = byteLevel().added_tokens;
  test.each([
    ["an added token that takes spaces", { added_tokens: [{ ...added[0], lstrip: true }] }],
    [
      "a normalized added token",
      { normalizer: { type: "NFC" }, added_tokens: [{ ...added[0], normalized: true }] },
    ],
    ["another normalizer", { normalizer: { type: "Lowercase" } }],
    [
      "a prefix space",
      { pre_tokenizer: { type: "ByteLevel", add_prefix_space: true, use_regex: true } },
    ],
    [
      "an unknown pattern",
      {
        pre_tokenizer: {
          type: "Split",
          pattern: { Regex: "\\w+" },
          behavior: "Isolated",
          invert: false,
        },
      },
    ],
    [
      "a text twice in the template",
      {
        post_processor: {
          type: "TemplateProcessing",
          single: [{ Sequence: { id: "A" } }, { Sequence: { id: "A" } }],
          pair: [],
          special_tokens: {},
        },
      },
    ],
    [
      "a merge without a token",
      { model: { ...byteLevel().model, merges: [...byteLevel().model.merges, ["zz", "zz"]] } },
    ],
    ["a suffix", { model: { ...byteLevel().model, end_of_word_suffix: "</w>" } }],
  ])("%s", (_, changes) => {
    const json = { ...byteLevel(), ...changes };
    expect(WordEncoder.of(json, {}, new Library(forLibrary(json), {}))).toBeNull();
  });

  test.each([{ remove_space: true }, { do_lowercase_and_remove_accent: true }])("%o", (config) => {
    const json = byteLevel();
    expect(WordEncoder.of(json, config, new Library(forLibrary(json), config))).toBeNull();
  });
});

test("recorded ids of Hugging Face's Rust library are those of words", () => {
  for (const kind of ["gpt2-byte-bpe", "llama3-style-byte-bpe"]) {
    const json = parsed(kind);
    const words = WordEncoder.of(json, {}, new Library(forLibrary(json), {}));
    for (const { text, ids_plain } of recordedTexts(kind)) {
      expect([...(words?.encode(text) ?? [])]).toEqual(ids_plain);
    }
  }
});
