import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { Tokenizer } from "#tokenizer";
import {
  hardTexts,
  loadTokenizer,
  recordedTexts,
  tokenizerJson,
  tokenizerKinds,
} from "./fixtures.ts";

describe.each(tokenizerKinds)("%s", (kind) => {
  const tokenizer = loadTokenizer(kind);
  const recorded = recordedTexts(kind);

  test("encodes as Hugging Face's tokenizers did", () => {
    for (const { text, ids, ids_plain } of recorded) {
      expect(tokenizer.encodeNow(text)).toEqual(ids);
      expect(tokenizer.encodeNow(text, { addSpecialTokens: false })).toEqual(ids_plain);
    }
  });

  test("decodes as Hugging Face's tokenizers did", () => {
    for (const { ids, decoded, decoded_keep } of recorded) {
      expect(tokenizer.decode(ids)).toBe(decoded);
      expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(decoded_keep);
    }
  });

  test("an unknown id has no text and no bytes", () => {
    const unknown = tokenizer.vocabularySize + 5;
    expect(tokenizer.decode([unknown])).toBe("");
    expect(tokenizer.tokenBytes(unknown)).toEqual(new Uint8Array(0));
    expect(tokenizer.decode([])).toBe("");
  });

  test("every token but the special ones has its bytes in what grammars are made of", () => {
    const { bytes, ends } = tokenizer.grammarVocabulary();
    expect(ends).toHaveLength(tokenizer.vocabularySize);
    ends.forEach((end, id) => {
      const own = bytes.subarray(ends[id - 1] ?? 0, end);
      if (own.length > 0) expect(own).toEqual(tokenizer.tokenBytes(id));
      else expect(tokenizer.specialIds).toContain(id);
    });
  });
});

test("white space is Unicode's, not JavaScript's: U+FEFF is none, U+0085 is some", () => {
  // Recorded from Hugging Face's Rust library, 0.23.2.
  const tokenizer = loadTokenizer("gpt2-byte-bpe");
  const spelled = (text: string) =>
    tokenizer.encodeNow(text).map((id) => tokenizer.vocabulary.token(id));
  expect(spelled(".  \ufeff")).toEqual([".", "Ġ", "Ġ", "ï", "»", "¿"]);
  expect(spelled("\ufeff's")).toEqual(["ï", "»", "¿", "'", "s"]);
});

describe("bytes of tokens", () => {
  const exact = ["gpt2-byte-bpe", "llama3-style-byte-bpe", "llama2-style-sp-bpe"];

  test.each(exact)("%s: bytes of all tokens are the bytes of the text", (kind) => {
    const tokenizer = loadTokenizer(kind);
    // The text as the model sees it: llama 2 puts a space in front, llama 3 composes (NFC).
    const seen = (text: string): string => {
      if (kind.startsWith("llama2")) return text === "" ? "" : ` ${text}`;
      return kind.startsWith("llama3") ? text.normalize("NFC") : text;
    };
    for (const text of hardTexts.slice(0, -1)) {
      const ids = tokenizer.encodeNow(text, { addSpecialTokens: false });
      const bytes = ids.flatMap((id) => [...tokenizer.tokenBytes(id)]);
      expect(bytes).toEqual([...new TextEncoder().encode(seen(text))]);
    }
  });

  test("a word piece has no continuation mark", () => {
    const tokenizer = loadTokenizer("bert-wordpiece");
    const id = tokenizer.tokenId("##ing") ?? -1;
    expect(new TextDecoder().decode(tokenizer.tokenBytes(id))).toBe("ing");
  });

  test("an added token is what it is called", () => {
    const tokenizer = loadTokenizer("gpt2-byte-bpe");
    const id = tokenizer.tokenId("<|im_end|>") ?? -1;
    expect(new TextDecoder().decode(tokenizer.tokenBytes(id))).toBe("<|im_end|>");
  });

  test.each([
    ["bert-wordpiece", "raw"],
    ["gpt2-byte-bpe", "byte_level"],
    ["llama2-style-sp-bpe", "byte_fallback"],
    ["llama3-style-byte-bpe", "byte_level"],
    ["unigram-metaspace", "byte_fallback"],
  ])("%s is a %s vocabulary", (kind, type) => {
    expect(loadTokenizer(kind).vocabulary.kind).toBe(type);
  });
});

describe("tokenizer_config.json", () => {
  const tokenizer = new Tokenizer({
    tokenizerJson: tokenizerJson("gpt2-byte-bpe"),
    tokenizerConfig: {
      eos_token: { content: "<|im_end|>" },
      bos_token: "<|endoftext|>",
      pad_token: null,
      additional_special_tokens: ["Ġt"],
      clean_up_tokenization_spaces: true,
    },
  });

  test("names the tokens that begin and end a text", () => {
    expect(tokenizer.namedId("eos")).toBe(2);
    expect(tokenizer.namedId("bos")).toBe(0);
    expect(tokenizer.namedId("pad")).toBeNull();
    expect(tokenizer.namedTokens).toEqual({ bos: "<|endoftext|>", eos: "<|im_end|>" });
  });

  test("may call ordinary tokens special", () => {
    const id = tokenizer.tokenId("Ġt") ?? -1;
    expect(tokenizer.specialIds).toContain(id);
    expect(tokenizer.decode([id])).toBe("");
    expect(tokenizer.decode([id], { skipSpecialTokens: false })).toBe(" t");
  });

  test("does not make us eat the spaces of the text", () => {
    const text = "a , b . c ' s";
    expect(tokenizer.decode(tokenizer.encodeNow(text))).toBe(text);
  });
});

describe("a tokenizer that cannot be used", () => {
  const json = JSON.parse(tokenizerJson("gpt2-byte-bpe"));
  const broken: [string, string | Record<string, unknown>][] = [
    ["no JSON", "{"],
    ["a list", "[]"],
    ["no model", { ...json, model: undefined }],
    ["a vocabulary that is a number", { ...json, model: { ...json.model, vocab: 3 } }],
    ["a huge id", { ...json, model: { ...json.model, vocab: { a: 2 ** 40 } } }],
    ["an unknown model type", { ...json, model: { type: "Strange", vocab: {} } }],
    ["an added token without an id", { ...json, added_tokens: [{ content: "x" }] }],
    ["a decoder that cannot stream", { ...json, decoder: { type: "CTC" } }],
    ["a decoder that is text", { ...json, decoder: "ByteLevel" }],
    ["a wrong pattern", { ...json, decoder: { type: "Replace", pattern: { Regex: "(" } } }],
  ];

  test.each(broken)("is refused: %s", (_, tokenizerJson) => {
    const load = () => new Tokenizer({ tokenizerJson });
    expect(load).toThrow(expect.objectContaining({ code: "TOKENIZER_INVALID" }));
  });
});

describe("a tokenizer from a stranger", () => {
  const model = { type: "WordLevel", vocab: { a: 0, b: 5 }, unk_token: "a" };
  const json = {
    ...{ model, added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null },
    decoder: null,
  };

  test("may leave ids out", () => {
    const tokenizer = new Tokenizer({ tokenizerJson: json });
    expect(tokenizer.vocabularySize).toBe(6);
    expect(tokenizer.decode([5, 3, 0])).toMatch(/^b ?a$/);
  });

  test("cannot make tables for ids that no vocabulary has", () => {
    for (const id of [2 ** 21, 2 ** 31, 2 ** 53, -1, 0.5]) {
      const vocab = { a: 0, b: id };
      expect(
        () => new Tokenizer({ tokenizerJson: { ...json, model: { ...model, vocab } } }),
      ).toThrow(expect.objectContaining({ code: "TOKENIZER_INVALID" }));
    }
  });

  const pattern = (source: string) => ({ type: "Replace", pattern: { Regex: source } });
  const twice = { type: "Replace", pattern: { String: "a" }, content: "aa" };
  const nested = (depth: number): object =>
    depth === 0 ? twice : { type: "Sequence", decoders: [nested(depth - 1)] };

  test.each([
    ["no list of decoders", { type: "Sequence", decoders: 3 }],
    ["a part that is a number", { type: "Sequence", decoders: [3] }],
    ["a prefix that is a number", { type: "WordPiece", prefix: 3 }],
    ["a pattern that is a number", { type: "Replace", pattern: { String: 3 } }],
    ["a count that is a text", { type: "Strip", start: "all" }],
    ["groups that repeat", { type: "Replace", pattern: { Regex: "(a+)+$" } }],
    ["two repetitions", { type: "Replace", pattern: { Regex: "a*a*b" } }],
    ["many bounded repetitions", pattern(`${"a{0,30}".repeat(6)}b`)],
    ["optional characters", pattern(`${"a?".repeat(30)}b`)],
    ["lazy repetitions", pattern("a{1,9}?a{1,9}?b")],
    ["alternatives in a row", pattern(`${"(?:a|a)".repeat(30)}b`)],
    [
      "a long replacement",
      { type: "Replace", pattern: { String: "a" }, content: "a".repeat(5000) },
    ],
    ["a long chain", { type: "Sequence", decoders: Array.from({ length: 65 }, () => twice) }],
    ["a deep chain", nested(1000)],
    ["nothing to strip", { type: "Strip", content: "", start: 2 ** 31 }],
    ["what was seen before", { type: "Replace", pattern: { Regex: "(a)\\1*" } }],
    ["no known type", { type: "constructor" }],
  ])("cannot decode by %s", (_, decoder) => {
    expect(() => new Tokenizer({ tokenizerJson: { ...json, decoder } })).toThrow(
      expect.objectContaining({ code: "TOKENIZER_INVALID" }),
    );
  });

  test.each([
    ["grows a token without end", { type: "Sequence", decoders: Array(60).fill(twice) }, "a"],
    ["searches a long token", pattern("a*b"), "a".repeat(1_000_000)],
  ])("ends a text that %s", (_, decoder, token) => {
    const vocab = { [token]: 0, b: 1 };
    const tokenizer = new Tokenizer({
      tokenizerJson: { ...json, decoder, model: { ...model, unk_token: "b", vocab } },
    });
    expect(() => tokenizer.decode([0])).toThrow(
      expect.objectContaining({ code: "TOKENIZER_INVALID" }),
    );
  });

  test.each(["a?", "x(?:b|c)d", "(?<!a) +", "[a?*|]{3}", "ab|cd"])("may decode by %s", (source) => {
    expect(
      () => new Tokenizer({ tokenizerJson: { ...json, decoder: pattern(source) } }),
    ).not.toThrow();
  });

  test("may decode by a pattern that takes no longer than its text", () => {
    const decoder = { type: "Replace", pattern: { Regex: "[*+(]*\\+" }, content: "b" };
    const vocab = { a: 0, "*(+a": 1 };
    const tokenizer = new Tokenizer({
      tokenizerJson: { ...json, decoder, model: { ...model, vocab } },
    });
    expect(tokenizer.decode([0, 1])).toBe("aba");
  });

  test.each(["toString", null, 0.5])("cannot put the id %j around a text", (id) => {
    const single = [
      { SpecialToken: { id: "a", type_id: 0 } },
      { Sequence: { id: "A", type_id: 0 } },
    ];
    const special_tokens = { a: { id: "a", ids: [id], tokens: ["a"] } };
    const vocab = { a: id, b: 5 };
    const post_processor = { type: "TemplateProcessing", single, pair: [], special_tokens };
    const load = () => {
      const files = { ...json, post_processor, model: { ...model, vocab } };
      new Tokenizer({ tokenizerJson: files }).encodeNow("b");
    };
    expect(load).toThrow(expect.objectContaining({ code: "TOKENIZER_INVALID" }));
  });

  test("whose fault shows only at a text is called invalid then", () => {
    const post_processor = {
      ...{ type: "TemplateProcessing", single: [65_536], pair: [], special_tokens: {} },
    };
    const tokenizer = new Tokenizer({ tokenizerJson: { ...json, post_processor } });
    expect(() => tokenizer.encodeNow("a")).toThrow(
      expect.objectContaining({ code: "TOKENIZER_INVALID" }),
    );
  });
});

test("what stands around a text is known", () => {
  const tokenizer = loadTokenizer("bert-wordpiece");
  const [cls, sep] = [tokenizer.tokenId("[CLS]"), tokenizer.tokenId("[SEP]")];
  expect(tokenizer.frame).toEqual({ before: [cls], after: [sep] });
  expect(loadTokenizer("gpt2-byte-bpe").frame).toEqual({ before: [], after: [] });
});

describe("the least number of tokens of a text", () => {
  const texts = [
    ...hardTexts,
    " ".repeat(5000),
    "a".repeat(5000),
    "\u1100\u1161\u11a8".repeat(999),
  ];

  test.each(tokenizerKinds)("of %s is never more than it has", (kind) => {
    const tokenizer = loadTokenizer(kind);
    for (const text of texts) {
      const { length } = tokenizer.encodeNow(text, { addSpecialTokens: false });
      expect(tokenizer.tokensAtLeast(text)).toBeLessThanOrEqual(length);
    }
  });

  test.each([
    ["gpt2-byte-bpe", true],
    ["llama3-style-byte-bpe", true],
    ["llama2-style-sp-bpe", true],
    ["bert-wordpiece", false],
    ["unigram-metaspace", false],
  ] as const)("of %s is known where every byte has a token: %s", (kind, isKnown) => {
    expect(loadTokenizer(kind).tokensAtLeast("a".repeat(5000)) > 0).toBe(isKnown);
  });
});

test("words that are remembered take a bounded memory, whatever a client writes", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const tokenizer = loadTokenizer("gpt2-byte-bpe");
  const letters = (i: number) =>
    i.toString(2).padStart(12, "0").replaceAll("0", "q").replaceAll("1", "z");
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  tokenizer.encodeNow(letters(1));
  const before = heap();
  // One word of 240 letters each: 13 MB when the library remembered them.
  for (let i = 0; i < 2_000; i++) tokenizer.encodeNow(letters(i).repeat(20));
  expect(heap() - before).toBeLessThan(4 * 2 ** 20);
});
