/** Conversations that grow, and others that begin like them: ids are those of the whole text. */
import { readFileSync } from "node:fs";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { describe, expect, test } from "vitest";
import { EncodedTexts } from "../../src/tokenizer/encoded-texts.ts";
import { forLibrary } from "../../src/tokenizer/tokenizer-files.ts";
import { WordEncoder } from "../../src/tokenizer/word-encoder.ts";
import { Dice } from "../fuzz/dice.ts";
import { sized } from "../support/full.ts";
import { tokenizerJson } from "./fixtures.ts";

const SEEDS = Array.from({ length: sized(3, 100) }, (_, place) => 1 + place);
const words = readFileSync("ARCHITECTURE.md", "utf8").split(" ");

/** A tokenizer whose added tokens begin like each other. */
function nestedTokens() {
  const json = JSON.parse(tokenizerJson("llama3-style-byte-bpe"));
  const [first] = json.added_tokens;
  const id = json.added_tokens.length + Object.keys(json.model.vocab).length;
  const more = ["<|im_start|>user", "<|im_start|>user2", "<|", "e\u0301x"].map(
    (content, place) => ({
      ...{ ...first, content, id: id + place },
    }),
  );
  return { ...json, added_tokens: [...json.added_tokens, ...more] };
}

test.for(SEEDS)("conversations that share beginnings, seed %i", (seed) => {
  const dice = new Dice(seed);
  for (const json of [
    nestedTokens(),
    JSON.parse(readFileSync("models/pocket/tokenizer.json", "utf8")),
  ]) {
    const library = new Library(forLibrary(json), {});
    const encoder = WordEncoder.of(json, {}, library);
    const turns = [
      "<|im_start|>",
      "<|im_end|>",
      "<|im_start|>user",
      "<|im_start|>user2",
      "<|im",
      "é",
    ];
    const texts = [""];
    for (let round = 0; round < 30; round++) {
      const base = dice.pick(texts) ?? "";
      // Sometimes from the middle: what follows a cut differs then, as little as by one unit.
      const begin = dice.below(3) === 0 ? base.slice(0, dice.below(base.length + 1)) : base;
      const start = dice.below(words.length - 900);
      const said = words.slice(start, start + 100 + dice.below(800)).join(" ");
      const text = `${begin}${dice.pick(turns)}${said}${dice.pick(turns)}\n`;
      texts.push(text);
      expect([...(encoder?.encode(text) ?? [])]).toEqual(
        library.encode(text, { add_special_tokens: false }).ids,
      );
    }
  }
});

describe("texts", () => {
  const long = "a".repeat(5_000);
  const known = (text: string, ...ends: number[]) => {
    const texts = new EncodedTexts(4);
    texts.add(text, new Int32Array(text.length).fill(7), { ends, counts: ends });
    return texts;
  };

  test("a beginning is known up to the last cut that all units behind it share", () => {
    const texts = known(`${long}bcdefgh`, 10, 5_000, 5_004);
    expect(texts.find(`${long}bcdefgh`).ends).toEqual([10, 5_000]);
    expect(texts.find(`${long}bcdefghi`).ends).toEqual([10, 5_000]);
    expect(texts.find(`${long}bcde`).ends).toEqual([10, 5_000]);
    expect(texts.find(`${long}bcdE`).ends).toEqual([10]);
    expect(texts.find(`b${long}`).ends).toEqual([]);
    expect(texts.find(`${long}bcdefgh`).ids).toHaveLength(5_000);
  });

  test("texts of another cache salt are no help, and stay", () => {
    const texts = new EncodedTexts(4);
    const cuts = { ends: [5_000], counts: [5_000] };
    const text = `${long}bcdefgh`;
    const salts = [null, "one", "two"];
    for (const [id, salt] of salts.entries()) {
      expect(texts.find(text, salt).ids).toHaveLength(0);
      texts.add(text, new Int32Array(text.length).fill(id), cuts, salt);
    }
    for (const [id, salt] of salts.entries()) expect(texts.find(text, salt).ids[0]).toBe(id);
    expect(texts.find(text, "three").ids).toHaveLength(0);
  });

  test("short texts are neither kept nor looked for", () => {
    expect(known("a".repeat(100), 10).find("a".repeat(100)).ends).toEqual([]);
    expect(known(long, 10).find("a".repeat(100)).ends).toEqual([]);
  });

  test("a text replaces what it continues, and old ones are forgotten", () => {
    const texts = new EncodedTexts(1);
    const add = (text: string) =>
      texts.add(text, new Int32Array(0), { ends: [4_000, text.length - 10], counts: [0, 0] });
    add(long);
    for (let other = 0; other < 40; other++) {
      add(`${String(other).padStart(4, "x")}${long}`);
    }
    expect(texts.find(long).ends).toEqual([]);
    expect(texts.find(`xx39${long}`).ends).toEqual([4_000, 4_994]);
    expect(texts.find(`xxx0${long}`).ends).toEqual([]);
    // A conversation of many turns keeps one place.
    for (let turn = 0; turn < 100; turn++) add(`xx39${long}${"b".repeat(100 * turn)}`);
    expect(texts.find(`xx38${long}`).ends).toEqual([4_000, 4_994]);
  });

  test("memory is bounded by units", () => {
    const texts = new EncodedTexts(1);
    for (let other = 0; other < 12; other++) {
      const text = `${String.fromCharCode(97 + other)}${"a".repeat(2 ** 20 - 1)}`;
      texts.add(text, new Int32Array(0), { ends: [10], counts: [0] });
    }
    const found = Array.from({ length: 12 }, (_, other) => {
      const text = `${String.fromCharCode(97 + other)}${"a".repeat(5_000)}`;
      return texts.find(text).ends.length;
    });
    expect(found).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
  });
});
