import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const fixture = new URL("../fixtures/tokenizers/gpt2-byte-bpe/tokenizer.json", import.meta.url);

/**
 * Writes a tokenizer of `size` tokens into a folder: the fixture's first ones, which are its three
 * special tokens, all bytes, and its first merges. Token 2 ends an output.
 */
export function writeSmallTokenizer(folder: string, size: number): void {
  const tokenizer: {
    model: { vocab: Record<string, number>; merges: [string, string][] };
  } = JSON.parse(readFileSync(fixture, "utf8"));
  const { model } = tokenizer;
  const vocab = Object.fromEntries(Object.entries(model.vocab).filter(([, id]) => id < size));
  const merges = model.merges.filter(([one, other]) => `${one}${other}` in vocab);
  const small = { ...tokenizer, model: { ...model, vocab, merges } };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(small));
}
