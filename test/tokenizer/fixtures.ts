import { readFileSync } from "node:fs";
import { Tokenizer } from "#tokenizer";

const folder = new URL("../fixtures/tokenizers/", import.meta.url);

export const tokenizerKinds = [
  "bert-wordpiece",
  "gpt2-byte-bpe",
  "llama2-style-sp-bpe",
  "llama3-style-byte-bpe",
  "unigram-metaspace",
] as const;

export interface RecordedText {
  readonly text: string;
  readonly ids: number[];
  readonly ids_plain: number[];
  readonly decoded: string;
  readonly decoded_keep: string;
}

/** tokenizer.json of one fixture, as text. */
export function tokenizerJson(kind: string): string {
  return readFileSync(new URL(`${kind}/tokenizer.json`, folder), "utf8");
}

export function loadTokenizer(kind: string): Tokenizer {
  return new Tokenizer({ tokenizerJson: tokenizerJson(kind) });
}

/** What Hugging Face's `tokenizers` gave for each text. */
export function recordedTexts(kind: string): RecordedText[] {
  return JSON.parse(readFileSync(new URL(`${kind}/expected.json`, folder), "utf8"));
}

/** Texts that break naive decoders. */
export const hardTexts = [
  "",
  " ",
  "  two leading spaces",
  "trailing   ",
  "😀👩‍👩‍👧🏳️‍🌈 emoji",
  "以 KVCache 為中心的分離式推理架構",
  "e\u0301 combining, \u0928\u092e\u0938\u094d\u0924\u0947, مرحبا",
  "\ufeffbyte order mark",
  "tabs\tand\r\nlines\n\n",
  "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u0000 null",
  "<s> </s> <|im_start|> [CLS] as text",
];
