import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { describe, expect, test } from "vitest";
import { readGgufHeader } from "../../src/checkpoint/gguf-header.ts";
import { ggufTokenizer } from "../../src/checkpoint/gguf-tokenizer.ts";
import { endTokenIds, readGgufVocabulary } from "../../src/checkpoint/gguf-vocabulary.ts";
import { type MetadataEntry, writeGguf } from "./gguf-writer.ts";
import { MemoryFile } from "./memory-file.ts";

type Metadata = Readonly<Record<string, MetadataEntry>>;

interface TokenizerJson {
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
  readonly model: {
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (readonly [string, string])[];
  };
}

interface Expected {
  readonly text: string;
  readonly ids: readonly number[];
  readonly ids_plain: readonly number[];
}

function fixture(kind: string): { tokenizer: TokenizerJson; expected: readonly Expected[] } {
  const read = (name: string) =>
    JSON.parse(readFileSync(`test/fixtures/tokenizers/${kind}/${name}.json`, "utf8"));
  return { tokenizer: read("tokenizer"), expected: read("expected") };
}

function metadataOf(metadata: Metadata) {
  return readGgufHeader(new MemoryFile(writeGguf({ metadata, tensors: [] }), "t.gguf")).metadata;
}

function tokensOf({ model }: TokenizerJson): string[] {
  const tokens: string[] = [];
  for (const [token, id] of Object.entries(model.vocab)) tokens[id] = token;
  return tokens;
}

const BYTE_TOKEN = /^<0x[0-9A-F]{2}>$/;

/** The vocabulary as llama.cpp's converter would store it. */
function asMetadata(tokenizer: TokenizerJson, own: Metadata): Metadata {
  const tokens = tokensOf(tokenizer);
  const added = new Set(tokenizer.added_tokens.map((token) => token.content));
  const kind = (token: string) => (BYTE_TOKEN.test(token) ? 6 : added.has(token) ? 3 : 1);
  return {
    "tokenizer.ggml.tokens": ["strings", tokens],
    "tokenizer.ggml.token_type": ["i32s", tokens.map(kind)],
    ...own,
  };
}

/** Byte-level kinds keep their merges, SentencePiece its scores. */
function mergesOf({ model }: TokenizerJson): MetadataEntry {
  return ["strings", model.merges.map((merge) => merge.join(" "))];
}

function scoresOf(tokenizer: TokenizerJson): MetadataEntry {
  const scores = new Map(tokenizer.model.merges.map((pair, rank) => [pair.join(""), -rank]));
  return ["f32s", tokensOf(tokenizer).map((token) => scores.get(token) ?? -1e6)];
}

function encoderOf(metadata: Metadata): Tokenizer {
  const { files, warning } = ggufTokenizer(metadataOf(metadata));
  expect(warning).toBeNull();
  return new Tokenizer(Object(files?.tokenizerJson), Object(files?.tokenizerConfig));
}

function expectIds(encoder: Tokenizer, expected: readonly Expected[]): void {
  for (const { text, ids, ids_plain } of expected) {
    expect(encoder.encode(text).ids, text).toEqual(ids);
    expect(encoder.encode(text, { add_special_tokens: false }).ids, text).toEqual(ids_plain);
  }
}

describe("a vocabulary in a GGUF gives the ids of the tokenizer.json that it came from", () => {
  test("GPT-2's byte-level BPE", () => {
    const { tokenizer, expected } = fixture("gpt2-byte-bpe");
    const metadata = asMetadata(tokenizer, {
      "tokenizer.ggml.model": ["string", "gpt2"],
      "tokenizer.ggml.pre": ["string", "gpt-2"],
      "tokenizer.ggml.merges": mergesOf(tokenizer),
    });
    expectIds(encoderOf(metadata), expected);
  });

  test("Llama 3's byte-level BPE, which puts BOS in front", () => {
    const { tokenizer, expected } = fixture("llama3-style-byte-bpe");
    const metadata = asMetadata(tokenizer, {
      "tokenizer.ggml.model": ["string", "gpt2"],
      "tokenizer.ggml.pre": ["string", "llama-bpe"],
      "tokenizer.ggml.merges": mergesOf(tokenizer),
      "tokenizer.ggml.bos_token_id": ["u32", 0],
    });
    // The fixture normalises to NFC, which llama-bpe does not.
    const same = expected.filter(({ text }) => text === text.normalize("NFC"));
    expectIds(encoderOf(metadata), same);
  });

  test("Llama 2's SentencePiece BPE, whose merges follow from its scores", () => {
    const { tokenizer, expected } = fixture("llama2-style-sp-bpe");
    const metadata = asMetadata(tokenizer, {
      "tokenizer.ggml.model": ["string", "llama"],
      "tokenizer.ggml.scores": scoresOf(tokenizer),
      "tokenizer.ggml.bos_token_id": ["u32", 1],
      "tokenizer.ggml.unknown_token_id": ["u32", 0],
    });
    expectIds(encoderOf(metadata), expected);
  });
});

test("SmolLM's pre-tokenizer isolates every numeral, fractions among them", () => {
  const metadata: Metadata = {
    "tokenizer.ggml.model": ["string", "gpt2"],
    "tokenizer.ggml.pre": ["string", "smollm"],
    "tokenizer.ggml.tokens": ["strings", ["Ġ", "Â", "½", "4", "ĠÂ", "44"]],
    "tokenizer.ggml.merges": ["strings", ["Ġ Â", "4 4"]],
  };
  expect(encoderOf(metadata).encode(" ½44").ids).toEqual([0, 1, 2, 3, 3]);
});

test("special tokens and the chat template arrive in the tokenizer's configuration", () => {
  const { files } = ggufTokenizer(
    metadataOf({
      "tokenizer.ggml.model": ["string", "gpt2"],
      "tokenizer.ggml.pre": ["string", "smollm"],
      "tokenizer.ggml.tokens": ["strings", ["<bos>", "<|im_end|>", "a", "<tool>"]],
      "tokenizer.ggml.token_type": ["i32s", [3, 3, 1, 4]],
      "tokenizer.ggml.merges": ["strings", []],
      "tokenizer.ggml.bos_token_id": ["u32", 0],
      "tokenizer.ggml.eos_token_id": ["u32", 1],
      "tokenizer.chat_template": ["string", "{{ messages }}"],
    }),
  );
  expect(files?.chatTemplate).toBe("{{ messages }}");
  expect(files?.tokenizerConfig).toMatchObject({ bos_token: "<bos>", eos_token: "<|im_end|>" });
  expect(files?.tokenizerJson.added_tokens).toMatchObject([
    { id: 0, special: true },
    { id: 1, special: true },
    { id: 3, special: false },
  ]);
});

test("control tokens that end a turn end a generation, next to the stated ones", () => {
  const metadata = metadataOf({
    "tokenizer.ggml.tokens": ["strings", ["<|end_of_text|>", "a", "<|eot_id|>", "<|im_end|>"]],
    "tokenizer.ggml.token_type": ["i32s", [3, 1, 3, 1]],
    "tokenizer.ggml.eos_token_id": ["u32", 0],
  });
  const vocabulary = readGgufVocabulary(metadata);
  expect(vocabulary && endTokenIds(metadata, vocabulary)).toEqual([0, 2]);
});

describe("a tokenizer that cannot be rebuilt", () => {
  const vocabulary: Metadata = { "tokenizer.ggml.tokens": ["strings", ["a"]] };

  test.each([
    ["none at all", {}, "has no vocabulary"],
    ["an unknown kind", { ...vocabulary, "tokenizer.ggml.model": ["string", "rwkv"] }, "rwkv"],
    [
      "an unknown way to cut text",
      {
        ...vocabulary,
        "tokenizer.ggml.model": ["string", "gpt2"],
        "tokenizer.ggml.pre": ["string", "klingon"],
      },
      "klingon",
    ],
  ] as const)("for %s leaves token ids, with a warning", (_name, metadata, words) => {
    const { files, warning } = ggufTokenizer(metadataOf(metadata));
    expect(files).toBeNull();
    expect(warning).toContain(words);
  });

  test.each([
    ["no merges", {}, "tokenizer.ggml.merges"],
    ["a merge of one part", { "tokenizer.ggml.merges": ["strings", ["ab"]] }, "must hold pairs"],
    ["a kind too few", { "tokenizer.ggml.token_type": ["i32s", []] }, "token_type"],
    [
      "a special id too high",
      { "tokenizer.ggml.merges": ["strings", []], "tokenizer.ggml.bos_token_id": ["u32", 9] },
      "bos_token_id",
    ],
  ] as const)("for %s is the file's fault", (_name, metadata, words) => {
    const own: Metadata = {
      ...vocabulary,
      "tokenizer.ggml.model": ["string", "gpt2"],
      ...metadata,
    };
    expect(() => ggufTokenizer(metadataOf(own))).toThrow(words);
  });
});
