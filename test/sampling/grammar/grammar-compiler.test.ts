import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { uniformAt } from "#base";
import {
  GrammarCompiler,
  type GrammarMatcher,
  GrammarOptions,
  type StructuredOutput,
} from "#sampling";
import { GrammarTrials } from "../../../src/sampling/grammar/grammar-trials.ts";
import { allows } from "../../../src/sampling/token-mask.ts";
import { sized } from "../../support/full.ts";
import { loadTokenizer } from "../../tokenizer/fixtures.ts";

const padding = 37;

/** A compiler for one of the fixtures; `stop` is its end token. */
function compilerFor(kind: string, stop: string, limits: object = {}) {
  const tokenizer = loadTokenizer(kind);
  const tokens = tokenizer.grammarVocabulary();
  const stopTokenId = tokenizer.tokenId(stop) ?? -1;
  const vocabularySize = tokens.ends.length + padding;
  const stopTokenIds = [stopTokenId];
  const options = GrammarOptions.parse(limits);
  const compiler = new GrammarCompiler({ tokens, vocabularySize, stopTokenIds, options });
  return { tokenizer, compiler, vocabularySize, stopTokenId };
}
type Setup = ReturnType<typeof compilerFor>;

async function matcherOf({ compiler }: Setup, output: StructuredOutput): Promise<GrammarMatcher> {
  const grammar = await compiler.compile(output);
  const matcher = await grammar.createMatcher();
  grammar.dispose();
  return matcher;
}

async function allowedNow(setup: Setup, matcher: GrammarMatcher): Promise<number[]> {
  const mask = new Uint32Array(Math.ceil(setup.vocabularySize / 32));
  await matcher.fillBitmask(mask);
  const ids = Array.from({ length: 32 * mask.length }, (_, id) => id);
  return ids.filter((id) => allows(mask, id));
}

/** Draws allowed tokens at random until the grammar ends; the text, or null when it goes on. */
async function randomOutput(setup: Setup, output: StructuredOutput, seed: number) {
  const { tokenizer, stopTokenId } = setup;
  const matcher = await matcherOf(setup, output);
  const ids: number[] = [];
  for (let step = 0; step < 400 && !matcher.isTerminated(); step++) {
    const allowed = await allowedNow(setup, matcher);
    expect(allowed.length).toBeGreaterThan(0);
    const draw = uniformAt({ low: seed, high: 0 }, step);
    // End where it may end, after a while: random text seldom closes its brackets by itself.
    const ends = allowed.includes(stopTokenId) && step > 20;
    const closing = allowed.filter((id) =>
      /^[\]}",\d]+$/.test(tokenizer.vocabulary.token(id) ?? ""),
    );
    const choices = step > 60 && closing.length > 0 ? closing : allowed;
    const token = ends ? stopTokenId : (choices[Math.floor(draw * choices.length)] ?? -1);
    expect(matcher.accept(token)).toBe(true);
    ids.push(token);
  }
  const done = matcher.isTerminated();
  matcher.dispose();
  const bytes = ids.slice(0, -1).flatMap((id) => [...tokenizer.tokenBytes(id)]);
  return done ? new TextDecoder().decode(Uint8Array.from(bytes)) : null;
}

const person = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 12 },
    age: { type: "integer" },
    tags: { type: "array", items: { enum: ["a", "b"] }, maxItems: 3 },
  },
  required: ["name", "age", "tags"],
} as const;

const kinds = [
  ["gpt2-byte-bpe", "<|im_end|>"],
  ["llama2-style-sp-bpe", "</s>"],
  ["llama3-style-byte-bpe", "<|im_end|>"],
] as const;

describe.each(kinds)("%s", (kind, stop) => {
  let setup: Setup;
  beforeAll(() => {
    setup = compilerFor(kind, stop);
  });
  afterAll(() => setup.compiler.dispose());

  const texts = async (output: StructuredOutput, count = 8): Promise<string[]> => {
    const all: string[] = [];
    for (let seed = 1; seed <= count; seed++) {
      const text = await randomOutput(setup, output, seed);
      if (text !== null) all.push(text);
    }
    expect(all.length).toBeGreaterThan(count / 2);
    return all;
  };

  test("random outputs fit a JSON schema", async () => {
    for (const text of await texts({ json: person })) {
      const value = JSON.parse(text);
      expect(Object.keys(value).sort()).toEqual(["age", "name", "tags"]);
      expect(typeof value.name).toBe("string");
      expect(Number.isInteger(value.age) || value.age === 0).toBe(true);
      for (const tag of value.tags) expect(["a", "b"]).toContain(tag);
    }
  });

  test("random outputs are JSON objects where any object will do", async () => {
    for (const text of await texts({ jsonObject: true })) {
      const value = JSON.parse(text);
      expect(typeof value === "object" && !Array.isArray(value)).toBe(true);
    }
  });

  test("random outputs match a regular expression as a whole", async () => {
    const pattern = "[A-Z]{2}-[0-9]{3,5}(x|yz)?";
    for (const text of await texts({ regex: pattern })) {
      expect(text).toMatch(new RegExp(`^(?:${pattern})$`));
    }
  });

  test("random outputs are one of the choices, whatever characters these have", async () => {
    const choice = ["yes", 'no "quotes" \\ here', "zeile\numbruch", "以 é 😀"];
    for (const text of await texts({ choice })) expect(choice).toContain(text);
  });

  test("random outputs follow an EBNF grammar", async () => {
    const grammar = 'root ::= "<" item ("," item)* ">"\nitem ::= [a-c]+';
    for (const text of await texts({ grammar })) expect(text).toMatch(/^<[a-c]+(,[a-c]+)*>$/);
  });
});

describe("GrammarCompiler", () => {
  const setup = compilerFor("gpt2-byte-bpe", "<|im_end|>");
  const { compiler, tokenizer, stopTokenId } = setup;
  const ids = (text: string): number[] => tokenizer.encodeNow(text);
  afterAll(() => compiler.dispose());

  test("the end token is allowed when the grammar is complete, and alone after the end", async () => {
    const matcher = await matcherOf(setup, { regex: "a*" });
    const [a = -1] = ids("a");
    expect(await allowedNow(setup, matcher)).toContain(stopTokenId);
    expect(matcher.accept(a)).toBe(true);
    expect(await allowedNow(setup, matcher)).toContain(a);
    expect(matcher.accept(stopTokenId)).toBe(true);
    expect(matcher.isTerminated()).toBe(true);
    expect(await allowedNow(setup, matcher)).toEqual([stopTokenId]);
    matcher.dispose();
  });

  test("a token that is not allowed changes nothing", async () => {
    const matcher = await matcherOf(setup, { choice: ["yes"] });
    const before = await allowedNow(setup, matcher);
    expect(matcher.accept(ids("z")[0] ?? -1)).toBe(false);
    expect(matcher.accept(stopTokenId)).toBe(false);
    expect(matcher.accept(10 ** 6)).toBe(false);
    expect(await allowedNow(setup, matcher)).toEqual(before);
    matcher.dispose();
  });

  test("tokens can be taken back, the end token too", async () => {
    const matcher = await matcherOf(setup, { choice: ["yes", "yesterday"] });
    const masks = [await allowedNow(setup, matcher)];
    const tokens = [...ids("yes"), stopTokenId];
    for (const token of tokens) {
      expect(matcher.accept(token)).toBe(true);
      masks.push(await allowedNow(setup, matcher));
    }
    for (let step = tokens.length - 1; step >= 0; step--) {
      matcher.rollback(1);
      expect(await allowedNow(setup, matcher)).toEqual(masks[step]);
    }
    expect(() => matcher.rollback(1)).toThrow("Cannot roll back");
    matcher.dispose();
  });

  test("padding of the vocabulary and special tokens are never allowed", async () => {
    const matcher = await matcherOf(setup, { regex: "[\\s\\S]*" });
    const allowed = await allowedNow(setup, matcher);
    expect(Math.max(...allowed)).toBeLessThan(tokenizer.vocabularySize);
    expect(allowed.filter((id) => tokenizer.vocabulary.isSpecial(id))).toEqual([stopTokenId]);
    matcher.dispose();
  });

  test("structural tags constrain what follows a trigger, in both forms", async () => {
    const tag = { begin: "<f>", end: "</f>" };
    const newer = {
      type: "triggered_tags",
      triggers: ["<f>"],
      tags: [{ ...tag, type: "tag", content: { type: "json_schema", json_schema: person } }],
    };
    const older = { structures: [{ ...tag, schema: person }], triggers: ["<f>"] };
    for (const structuralTag of [newer, older, JSON.stringify({ format: newer })]) {
      const matcher = await matcherOf(setup, { structuralTag });
      for (const token of ids("any text <f>")) expect(matcher.accept(token)).toBe(true);
      expect(matcher.accept(ids("x")[0] ?? -1)).toBe(false);
      for (const token of ids("{")) expect(matcher.accept(token)).toBe(true);
      matcher.dispose();
    }
  });

  const bad: [string, StructuredOutput, string][] = [
    ["an EBNF grammar", { grammar: "root ::= [" }, "Unterminated character class"],
    ["a grammar without a root", { grammar: 'start ::= "a"' }, "root"],
    ["a schema that is no JSON", { json: "{nope" }, "must be JSON"],
    ["an unknown type", { json: { type: "strange" } }, "strange"],
    ["a contradiction", { json: { type: "string", minLength: 5, maxLength: 2 } }, "maxLength (2)"],
    ["a regular expression", { regex: "([a" }, "unclosed"],
    ["a lookahead", { regex: "(?=a)b" }, "look-ahead"],
    ["a structural tag", { structuralTag: { type: "strange" } }, 'it is "strange"'],
    ["a deep schema", { json: `${'{"items":'.repeat(200)}{}${"}".repeat(200)}` }, "64 levels"],
    ["a deep grammar", { grammar: `root ::= ${"(".repeat(99)}"a"${")".repeat(99)}` }, "64 levels"],
    ["a huge schema", { json: { description: "x".repeat(300_000) } }, "262144 characters"],
  ];

  test.each(bad)("%s that is wrong is refused with the reason", async (_, output, reason) => {
    await expect(compiler.compile(output)).rejects.toMatchObject({
      code: "GRAMMAR_INVALID",
      message: expect.stringContaining(reason),
    });
  });

  test("matchers keep working through bad grammars and evicted ones", async () => {
    const matcher = await matcherOf(setup, { choice: ["yes", "no"] });
    const before = await allowedNow(setup, matcher);
    for (let i = 0; i < 80; i++) {
      const grammar = await compiler.compile({ choice: [`choice ${i}`] });
      grammar.dispose();
    }
    for (const [, output] of bad) await expect(compiler.compile(output)).rejects.toThrow();
    expect(await allowedNow(setup, matcher)).toEqual(before);
    for (const token of [...ids("yes"), stopTokenId]) expect(matcher.accept(token)).toBe(true);
    matcher.dispose();
  });

  test("grammars can be asked for at once, and shared", async () => {
    const outputs: StructuredOutput[] = [{ json: person }, { regex: "(" }, { json: person }];
    const settled = await Promise.allSettled(outputs.map((output) => compiler.compile(output)));
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    for (const result of settled) if (result.status === "fulfilled") result.value.dispose();
  });

  test("requests that come at once compile a schema once", async () => {
    const prepared = vi.spyOn(GrammarTrials.prototype, "prepare");
    onTestFinished(() => prepared.mockRestore());
    const json = { ...person, title: "compiled once" };
    const all = await Promise.all(Array.from({ length: 20 }, () => compiler.compile({ json })));
    expect(prepared).toHaveBeenCalledTimes(1);
    for (const grammar of all) grammar.dispose();
  });

  test("masks leave nothing behind that counts as the grammar's memory", async () => {
    const small = compilerFor("gpt2-byte-bpe", "<|im_end|>", { memoryBytesMax: 2 ** 20 });
    const matcher = await matcherOf(small, { json: person });
    const mask = new Uint32Array(Math.ceil(small.vocabularySize / 32));
    // Together they have ten times as many bytes.
    const times = Math.ceil((10 * 2 ** 20) / mask.byteLength);
    for (let time = 0; time < times; time++) await matcher.fillBitmask(mask);
    matcher.dispose();
    small.compiler.dispose();
  });

  test("many outputs of one schema do not fill its memory for the next ones", async () => {
    // Each output leaves states in the lexer that all of them share.
    const small = compilerFor("gpt2-byte-bpe", "<|im_end|>", { memoryBytesMax: 2 ** 20 });
    const names = { type: "string", maxLength: 24 };
    const json = { type: "array", items: names, minItems: 4, maxItems: 4 };
    for (let seed = 0; seed < sized(150, 600); seed++) {
      await randomOutput(small, { json }, seed);
    }
    small.compiler.dispose();
  });

  test("thousands of matchers leave no memory behind", async () => {
    const grammar = await compiler.compile({ json: person });
    const use = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const matcher = await grammar.createMatcher();
        await allowedNow(setup, matcher);
        matcher.dispose();
      }
    };
    await use(500);
    const before = process.memoryUsage();
    await use(2000);
    const after = process.memoryUsage();
    // A matcher keeps some 50 kB: 2000 lost ones would be 100 MB of WebAssembly memory.
    expect(
      after.arrayBuffers + after.external - before.arrayBuffers - before.external,
    ).toBeLessThan(16e6);
    grammar.dispose();
    await expect(grammar.createMatcher()).rejects.toThrow("the grammar was disposed");
  });
});
