import { describe, expect, test } from "vitest";
import { badWordTokens } from "#tokenizer";
import { loadTokenizer } from "./fixtures.ts";

describe("badWordTokens", () => {
  const tokenizer = loadTokenizer("gpt2-byte-bpe");
  const encode = (text: string) => tokenizer.encodeNow(text, { addSpecialTokens: false });

  test("gives the word's tokens, and those after a space when only the first differs", () => {
    expect(badWordTokens(tokenizer, ["t"])).toEqual([encode("t"), encode(" t")]);
  });

  test("leaves out the variant whose space is a token of its own", () => {
    const spaced = encode(" q");
    expect(spaced).toHaveLength(2);
    expect(badWordTokens(tokenizer, [" q"])).toEqual([encode("q")]);
  });

  test("refuses a word without tokens", () => {
    const refused = expect.objectContaining({ code: "INVALID_ARGUMENT", param: "badWords" });
    expect(() => badWordTokens(tokenizer, ["  "])).toThrow(refused);
  });
});
