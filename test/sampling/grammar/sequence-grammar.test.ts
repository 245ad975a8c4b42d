import { afterAll, describe, expect, test } from "vitest";
import {
  GrammarCompiler,
  type GrammarMatcher,
  GrammarOptions,
  type StructuredOutput,
} from "#sampling";
import { SequenceGrammar } from "../../../src/sampling/grammar/sequence-grammar.ts";
import { loadTokenizer } from "../../tokenizer/fixtures.ts";

const tokenizer = loadTokenizer("gpt2-byte-bpe");
const tokens = tokenizer.grammarVocabulary();
const vocabularySize = tokens.ends.length;
const end = tokenizer.tokenId("<|im_end|>") ?? -1;
/** Its calls take no time, so that masks are quick after some of them, whatever else runs here. */
const clock = { nowMs: () => 0 };

function compilerWith(limits: object): GrammarCompiler {
  const options = GrammarOptions.parse(limits);
  return new GrammarCompiler({ tokens, vocabularySize, stopTokenIds: [end], options, clock });
}

const compiler = compilerWith({});
afterAll(() => compiler.dispose());

/** A matcher whose grammar was found to be quick. */
async function matcherOf(output: StructuredOutput, by = compiler): Promise<GrammarMatcher> {
  const grammar = await by.compile(output);
  const matcher = await grammar.createMatcher();
  const mask = new Uint32Array(Math.ceil(vocabularySize / 32));
  for (let call = 0; call < 32; call++) matcher.fillAhead(mask);
  expect(matcher.quick).toBe(true);
  grammar.dispose();
  return matcher;
}

async function grammarOf(output: StructuredOutput): Promise<SequenceGrammar> {
  const grammar = new SequenceGrammar(await matcherOf(output), vocabularySize);
  await grammar.prepare();
  return grammar;
}

const ids = (text: string): number[] => tokenizer.encodeNow(text);
const textOf = (found: Int32Array): string =>
  new TextDecoder().decode(
    Uint8Array.from([...found].flatMap((id) => [...tokenizer.tokenBytes(id)])),
  );

const json = {
  type: "object",
  properties: { kind: { enum: ["road", "rail"] }, number: { type: "integer" } },
  required: ["kind", "number"],
} as const;
const answer = '{"kind":"rail","number":12}';

describe("[SP24] ahead of a sequence", () => {
  test("masks are those that the sequence gets when it is there, and none of its own changes", async () => {
    const grammar = await grammarOf({ json });
    const path = ids(answer);
    const ahead: Uint32Array[] = [];
    for (const token of path) {
      expect(grammar.goBehind(token)).toBe(true);
      ahead.push(grammar.lookAhead().slice());
    }
    grammar.comeBack(path.length);
    const again = await grammarOf({ json });
    expect(grammar.mask).toEqual(again.mask);
    for (const [place, token] of path.entries()) {
      grammar.accept(token);
      await grammar.prepare();
      expect(grammar.mask).toEqual(ahead[place]);
    }
    grammar.accept(end);
    expect(grammar.terminated).toBe(true);
    expect(grammar.foresees).toBe(false);
    grammar.dispose();
    again.dispose();
  });

  test("branches: part of a path is left, and another one is gone", async () => {
    const grammar = await grammarOf({ json });
    const [one, other] = [ids('{"kind":"rail"'), ids('{"kind":"road"')];
    let common = 0;
    while (one[common] === other[common]) common++;
    for (const token of one) expect(grammar.goBehind(token)).toBe(true);
    grammar.comeBack(one.length - common);
    for (const token of other.slice(common)) expect(grammar.goBehind(token)).toBe(true);
    const behind = grammar.lookAhead().slice();
    grammar.comeBack(other.length);
    const straight = await grammarOf({ json });
    for (const token of other) straight.accept(token);
    await straight.prepare();
    expect(behind).toEqual(straight.mask);
    grammar.dispose();
    straight.dispose();
  });

  test("a refused token and an end are not gone behind, and change nothing", async () => {
    const grammar = await grammarOf({ regex: "a+" });
    const [a = -1] = ids("a");
    const [z = -1] = ids("z");
    expect(grammar.goBehind(z)).toBe(false);
    expect(grammar.goBehind(a)).toBe(true);
    expect(grammar.goBehind(end)).toBe(false);
    expect(grammar.goBehind(z)).toBe(false);
    expect(grammar.goBehind(a)).toBe(true);
    grammar.comeBack(2);
    expect(grammar.goBehind(end)).toBe(false);
    grammar.dispose();
  });

  test("sampled tokens that were not told yet come first", async () => {
    const grammar = await grammarOf({ choice: ["left", "right"] });
    const path = ids("right");
    for (const token of path.slice(0, 1)) grammar.accept(token);
    for (const token of path.slice(1)) expect(grammar.goBehind(token)).toBe(true);
    grammar.comeBack(path.length - 1);
    await grammar.prepare();
    for (const token of path.slice(1)) grammar.accept(token);
    await grammar.prepare();
    grammar.accept(end);
    expect(grammar.terminated).toBe(true);
    grammar.dispose();
  });

  test("a grammar is not looked into before its first mask, nor where it is slow", async () => {
    const compiled = await compiler.compile({ regex: "[a-z]{4,90}" });
    const create = () => compiled.createMatcher();
    const grammar = new SequenceGrammar(create, vocabularySize);
    expect(grammar.foresees).toBe(false);
    await grammar.prepare();
    // Nothing is known of its speed.
    expect(grammar.foresees).toBe(false);
    const [a = -1] = ids("a");
    expect(() => grammar.goBehind(a)).toThrow("must be quick");
    grammar.dispose();
    compiled.dispose();
  });
});

describe("[SP24] an error ahead of a sequence", () => {
  test("of a limit ends no sequence: the matcher is made again, and does not go ahead any more", async () => {
    // A mask behind the brackets takes more work than those before.
    const output = { regex: "x(a|b|ab|ba|abc|bca){1,300}(c|d|cd)*y?" };
    const strict = compilerWith({ averageWorkMax: 100 });
    const grammar = new SequenceGrammar(await matcherOf(output, strict), vocabularySize);
    await grammar.prepare();
    const [x = -1] = ids("x");
    const mask = grammar.mask?.slice();
    expect(grammar.goBehind(x)).toBe(true);
    expect(() => grammar.lookAhead()).toThrow("averageWorkMax");
    expect(grammar.foresees).toBe(false);
    expect(grammar.mask).toEqual(mask);
    grammar.accept(x);
    expect(() => grammar.goBehind(x)).toThrow("must not have failed");
    grammar.dispose();
    strict.dispose();
  });

  test("of the library is forgotten: the sequence's own tokens are told to a new matcher", async () => {
    const matcher = await matcherOf({ json });
    let broken = false;
    const failing: GrammarMatcher = {
      fillBitmask: (row) => matcher.fillBitmask(row),
      fillAhead: (row) => matcher.fillAhead(row),
      accept: (token) => {
        if (broken) throw new Error("memory access out of bounds");
        return matcher.accept(token);
      },
      rollback: (count) => matcher.rollback(count),
      forced: (most) => matcher.forced(most),
      isTerminated: () => matcher.isTerminated(),
      ends: (token) => matcher.ends(token),
      slow: false,
      quick: true,
      dispose: () => matcher.dispose(),
    };
    const grammar = new SequenceGrammar(failing, vocabularySize);
    await grammar.prepare();
    const path = ids(answer);
    for (const token of path.slice(0, 3)) expect(grammar.goBehind(token)).toBe(true);
    broken = true;
    expect(() => grammar.goBehind(path[3] ?? -1)).toThrow("out of bounds");
    broken = false;
    // All were taken back with the error.
    grammar.comeBack(3);
    expect(grammar.foresees).toBe(false);
    for (const token of path) {
      grammar.accept(token);
      await grammar.prepare();
    }
    grammar.accept(end);
    expect(grammar.terminated).toBe(true);
    grammar.dispose();
  });
});

describe("[SP25] what a grammar forces", () => {
  test("is spelled about as the tokenizer does, and the grammar allows that", async () => {
    const grammar = await grammarOf({ json });
    const found = grammar.forced(63);
    expect(textOf(found)).toBe('{"kind":');
    expect(found.length).toBeLessThan(8);
    for (const token of found) expect(grammar.goBehind(token)).toBe(true);
    grammar.comeBack(found.length);
    // Asking changed nothing.
    expect(grammar.forced(63)).toEqual(found);
    for (const token of ids('{"kind":"ro')) grammar.accept(token);
    expect(textOf(grammar.forced(63))).toBe('ad",');
    expect(grammar.forced(1).length).toBe(1);
    grammar.dispose();
  });

  test("has the tokens of words that the tokenizer gives them, in any place", async () => {
    const text = "the river, 42 crossing lines of the tokenizer";
    const grammar = await grammarOf({ choice: [text] });
    const found = [...grammar.forced(63)];
    expect(textOf(Int32Array.from(found))).toBe(text);
    const usual = new Set(ids(text));
    const alike = found.filter((token) => usual.has(token));
    expect(alike.length / found.length).toBeGreaterThan(0.8);
    grammar.dispose();
  });

  test("is nothing where the text is free or complete", async () => {
    const free = await grammarOf({ regex: "[a-z]+" });
    expect(free.forced(8).length).toBe(0);
    const ended = await grammarOf({ choice: ["yes"] });
    expect(textOf(ended.forced(8))).toBe("yes");
    for (const token of ids("yes")) ended.accept(token);
    expect(ended.forced(8).length).toBe(0);
    free.dispose();
    ended.dispose();
  });
});
