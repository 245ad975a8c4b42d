import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DecodeOptions, Tokenizer } from "#tokenizer";
import { hardTexts, loadTokenizer, tokenizerJson, tokenizerKinds } from "./fixtures.ts";

const optionSets: DecodeOptions[] = [
  {},
  { skipSpecialTokens: false },
  { skipSpecialTokens: false, spacesBetweenSpecialTokens: false },
];

/** Half a surrogate pair somewhere. */
const hasLoneSurrogate = (text: string): boolean => /\p{Surrogate}/u.test(text);

/** All pieces of a stream, the flushed tail last. */
function pieces(tokenizer: Tokenizer, ids: readonly number[], options: DecodeOptions): string[] {
  const decoder = tokenizer.stream(options);
  return [...ids.map((id) => decoder.push([id])), decoder.flush()];
}

/** What it takes on ids: unfinished characters never show, and nothing is lost. */
function checkStream(tokenizer: Tokenizer, ids: readonly number[], options: DecodeOptions): void {
  const streamed = pieces(tokenizer, ids, options);
  const whole = tokenizer.decode(ids, options);
  expect(streamed.join("")).toBe(whole);
  for (const piece of streamed) expect(hasLoneSurrogate(piece)).toBe(false);
  // A piece sent is right whatever comes next: no replacement character that the whole has not.
  const replaced = (text: string): number => text.split("\ufffd").length;
  const before = streamed.slice(0, -1).join("");
  expect(whole.startsWith(before)).toBe(true);
  expect(replaced(before)).toBeLessThanOrEqual(replaced(whole));
}

describe.each(tokenizerKinds)("%s", (kind) => {
  const tokenizer = loadTokenizer(kind);
  const anyId = fc.integer({ min: 0, max: tokenizer.vocabularySize });

  test.each(optionSets)("a stream of random ids equals decoding at once %o", (options) => {
    fc.assert(
      fc.property(fc.array(anyId, { maxLength: 60 }), (ids) =>
        checkStream(tokenizer, ids, options),
      ),
      { numRuns: 200, seed: 7 },
    );
  });

  test("a stream of a text's ids equals decoding at once", () => {
    const texts = fc.array(fc.constantFrom(...hardTexts), { minLength: 1, maxLength: 4 });
    const text = fc.oneof(
      texts.map((parts) => parts.join("")),
      fc.string({ unit: "grapheme", maxLength: 40 }),
      fc.string({ unit: "binary", maxLength: 20 }),
    );
    fc.assert(
      fc.property(text, (value) => {
        const ids = tokenizer.encodeNow(value);
        for (const options of optionSets) checkStream(tokenizer, ids, options);
      }),
      { numRuns: 100, seed: 7 },
    );
  });

  test("a fork is independent from where it was made", () => {
    const ids = tokenizer.encodeNow("emoji 😀 and 以 after", { addSpecialTokens: false });
    const options = { skipSpecialTokens: false };
    for (let cut = 0; cut <= ids.length; cut++) {
      const decoder = tokenizer.stream(options);
      const start = decoder.push(ids.slice(0, cut));
      const copy = decoder.fork();
      decoder.push([5, 6, 7]);
      const rest = copy.push(ids.slice(cut)) + copy.flush();
      expect(start + rest).toBe(tokenizer.decode(ids, options));
    }
  });
});

const lossless = ["gpt2-byte-bpe", "llama2-style-sp-bpe", "llama3-style-byte-bpe"];

test.each(lossless)("%s gives every text back as it was", (kind) => {
  const tokenizer = loadTokenizer(kind);
  for (const text of hardTexts.slice(0, -1)) {
    const ids = tokenizer.encodeNow(text, { addSpecialTokens: false });
    // Llama 2's byte tokens are marked special in the fixture, so they show only when kept.
    const decoded = tokenizer.decode(ids, { skipSpecialTokens: false });
    expect(decoded).toBe(kind.startsWith("llama3") ? text.normalize("NFC") : text);
  }
});

describe("unfinished characters", () => {
  const tokenizer = loadTokenizer("gpt2-byte-bpe");
  const ids = tokenizer.encodeNow("以");

  test("are held until they are complete", () => {
    const decoder = tokenizer.stream();
    expect(ids).toHaveLength(3);
    expect(ids.map((id) => decoder.push([id]))).toEqual(["", "", "以"]);
  });

  test("become one replacement character at the end", () => {
    const decoder = tokenizer.stream();
    expect(decoder.push(ids.slice(0, 2))).toBe("");
    expect(decoder.flush()).toBe("\ufffd");
    expect(decoder.flush()).toBe("");
  });

  test("become one before the text that interrupts them", () => {
    const decoder = tokenizer.stream();
    decoder.push(ids.slice(0, 2));
    expect(decoder.push(tokenizer.encodeNow("a"))).toBe("\ufffda");
  });
});

describe("first words", () => {
  const tokenizer = loadTokenizer("llama2-style-sp-bpe");
  const ids = tokenizer.encodeNow("token", { addSpecialTokens: false });

  test("lose the space that SentencePiece put before them", () => {
    expect(tokenizer.decode(ids)).toBe("token");
  });

  test("keep it after a prompt", () => {
    const decoder = tokenizer.stream();
    decoder.prime(tokenizer.encodeNow("the"));
    expect(decoder.push(ids) + decoder.flush()).toBe(" token");
  });
});

describe("spaces between special tokens", () => {
  const tokenizer = loadTokenizer("bert-wordpiece");
  const ids = [2, 3, ...tokenizer.encodeNow("the", { addSpecialTokens: false }), 3];

  test("are the decoder's by default", () => {
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe("[CLS] [SEP] the [SEP]");
  });

  test("can be switched off", () => {
    const options = { skipSpecialTokens: false, spacesBetweenSpecialTokens: false };
    expect(tokenizer.decode(ids, options)).toBe("[CLS][SEP] the [SEP]");
  });
});

describe("decoders of tokenizer.json", () => {
  const json = JSON.parse(tokenizerJson("gpt2-byte-bpe"));
  const vocab = {
    a: 0,
    "b</w>": 1,
    "▁c": 2,
    "▁": 3,
    "<0xE4>": 4,
    "<0xBB>": 5,
    "<0xA5>": 6,
    " ": 7,
  };
  const model = { type: "BPE", vocab, merges: [] };
  const decode = (decoder: unknown, ids: number[]): string => {
    const files = { ...json, model, added_tokens: [], decoder, pre_tokenizer: null };
    const tokenizer = new Tokenizer({ tokenizerJson: files });
    checkStream(tokenizer, ids, {});
    return tokenizer.decode(ids);
  };
  const space = { type: "Replace", pattern: { String: "▁" }, content: " " };
  const strip = { type: "Strip", content: " ", start: 1, stop: 1 };

  test("none joins tokens with spaces", () => {
    expect(decode(null, [0, 2, 0])).toBe("a ▁c a");
  });

  test("BPEDecoder ends words with spaces, but not the last", () => {
    expect(decode({ type: "BPEDecoder", suffix: "</w>" }, [0, 1, 1])).toBe("ab b");
  });

  test("Metaspace drops all marks of the first token", () => {
    const metaspace = { type: "Metaspace", replacement: "▁", prepend_scheme: "always" };
    expect(decode(metaspace, [2, 2])).toBe("c c");
    expect(decode({ ...metaspace, prepend_scheme: "never" }, [2, 2])).toBe(" c c");
  });

  test("Strip after Fuse cuts the text, before it cuts each token", () => {
    const sequence = (...decoders: unknown[]) => ({ type: "Sequence", decoders });
    const fuse = { type: "Fuse" };
    expect(decode(sequence(space, fuse, strip), [3, 2, 0, 3, 3])).toBe(" ca ");
    expect(decode(sequence(space, strip, fuse), [3, 2, 0, 3, 3])).toBe("ca");
  });

  test("ByteFallback joins bytes and replaces broken ones", () => {
    const bytes = {
      type: "Sequence",
      decoders: [space, { type: "ByteFallback" }, { type: "Fuse" }],
    };
    expect(decode(bytes, [4, 5, 6, 2])).toBe("以 c");
    expect(decode(bytes, [4, 5, 0, 5])).toBe("\ufffda\ufffd");
  });
});
