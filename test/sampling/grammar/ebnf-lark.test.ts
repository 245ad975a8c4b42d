import { afterAll, describe, expect, test } from "vitest";
import { EngineError, uniformAt } from "#base";
import { GrammarCompiler, type GrammarMatcher, GrammarOptions } from "#sampling";
import { ebnfRules } from "../../../src/sampling/grammar/ebnf-syntax.ts";
import { allows } from "../../../src/sampling/token-mask.ts";
import { alphabet, languageOf, randomGrammar } from "../../support/ebnf-language.ts";
import { sized } from "../../support/full.ts";
import { tokenBytesOf } from "../../support/token-bytes.ts";

/** Letters first; then tokens of several, which must be allowed where their letters are. */
const tokens = [...alphabet, "ab", "bc", "abc", "cc", "ba"];
const stop = tokens.length;
const lengthMax = 5;

const compiler = new GrammarCompiler({
  tokens: tokenBytesOf([...tokens, ""]),
  vocabularySize: tokens.length + 1,
  stopTokenIds: [stop],
  options: GrammarOptions.parse({}),
});
afterAll(() => compiler.dispose());

/** Compares everything that a matcher says with the words of its language, from `prefix` on. */
async function compare(matcher: GrammarMatcher, words: ReadonlySet<string>, prefix: string) {
  const mask = new Uint32Array(1);
  await matcher.fillBitmask(mask);
  expect([prefix, allows(mask, stop)]).toEqual([prefix, words.has(prefix)]);
  for (const [id, token] of tokens.entries()) {
    const word = prefix + token;
    if (word.length > lengthMax) continue;
    const isAllowed = allows(mask, id);
    expect([word, matcher.accept(id)]).toEqual([word, isAllowed]);
    if (!isAllowed) {
      expect([...words].filter((other) => other.startsWith(word))).toEqual([]);
      continue;
    }
    if (token.length === 1) await compare(matcher, words, word);
    else await expectLetters(matcher, token);
    matcher.rollback(1);
  }
}

/** The last token, taken back, could have come letter by letter. */
async function expectLetters(matcher: GrammarMatcher, token: string): Promise<void> {
  const after = new Uint32Array(1);
  await matcher.fillBitmask(after);
  matcher.rollback(1);
  for (const letter of token) expect(matcher.accept(tokens.indexOf(letter))).toBe(true);
  const letters = new Uint32Array(1);
  await matcher.fillBitmask(letters);
  expect(letters).toEqual(after);
  matcher.rollback(token.length - 1);
}

async function compareGrammar(grammar: string): Promise<void> {
  const words = languageOf(ebnfRules(grammar), lengthMax);
  let compiled: Awaited<ReturnType<GrammarCompiler["compile"]>>;
  try {
    compiled = await compiler.compile({ grammar });
  } catch (error) {
    // The only grammars that are refused are those without an output.
    expect(error).toBeInstanceOf(EngineError);
    expect(`${error}`).toContain("must allow an output");
    expect([...words]).toEqual([]);
    return;
  }
  const matcher = await compiled.createMatcher();
  await compare(matcher, words, "");
  matcher.dispose();
  compiled.dispose();
}

describe("a grammar allows exactly the words of its language", () => {
  test.each([
    ["a recursion in the middle", 'root ::= "a" root "b" | "c"'],
    ["a word that begins another", 'root ::= "(" root | x\nx ::= "ab" "ca" | "abc" "b" | "a" root'],
    ["a repetition before its own letters", 'root ::= [ab]* "ab" | "c" root "c"'],
    ["an ambiguity", 'root ::= "a" root "a" | "a" root | root "a" | ""'],
    ["left and right recursion", 'root ::= x "c" | root x\nx ::= "a" x | "b"'],
    ["an empty word between", 'root ::= x root y | "c"\nx ::= "a"?\ny ::= "b"*'],
    ["a part that never ends", 'root ::= "a" x | "b" root | "c"\nx ::= "b" x'],
    ["counted repetitions", 'root ::= ("ab"{1,2} root)? "c"{2,}'],
    ["names as Lark has its own", 'root ::= START start\nSTART ::= "a"\nstart ::= "b" root?'],
  ])("%s", async (_, grammar) => {
    await compareGrammar(grammar);
  });

  test.each(Array.from({ length: sized(4, 12) }, (_, seed) => seed + 1))(
    "of random grammars (seed %i)",
    async (seed) => {
      let draws = 0;
      const below = (n: number) => Math.floor(uniformAt({ low: seed, high: 7 }, draws++) * n);
      for (let i = 0; i < 20; i++) await compareGrammar(randomGrammar(below));
    },
    60_000,
  );
});

describe("EBNF", () => {
  const one = async (grammar: string, text: string): Promise<boolean> => {
    const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
    const reader = new GrammarCompiler({
      tokens: tokenBytesOf([...bytes, ""]),
      vocabularySize: 257,
      stopTokenIds: [256],
      options: GrammarOptions.parse({}),
    });
    const compiled = await reader.compile({ grammar });
    const matcher = await compiled.createMatcher();
    const taken = [...new TextEncoder().encode(text), 256].every((id) => matcher.accept(id));
    matcher.dispose();
    compiled.dispose();
    reader.dispose();
    return taken;
  };

  test.each([
    [String.raw`root ::= "\"\\\n\t\x41\u00e9\U0001F600"`, '"\\\n\tAé😀'],
    [String.raw`root ::= [\]\-\^a-c\u4e00-\u4e10]+`, "]-^b一"],
    ["root ::= [^a]", "😀"],
    ["# a comment\nroot ::= # another\n  'x' | # more\n  'y'\n", "y"],
    ['root ::= a-b_c.d\na-b_c.d ::= "x"', "x"],
    ['root ::= "a"{3}', "aaa"],
    ["root ::= .", "x"],
    ['root ::= ("[" root "]")?', "[[]]"],
  ])("%s reads %j", async (grammar, text) => {
    expect(await one(grammar, text)).toBe(true);
  });

  test.each([
    ['root ::= "a', "Unterminated string, at line 1, column 10"],
    ['root ::= ("a"', "Unclosed group"],
    ['root ::= (="a") "b"', "Lookahead is not supported"],
    ["root ::= b", "rule b must be defined"],
    ['root ::= "a"\nroot ::= "b"', "rule root must be defined only once"],
    ['root ::= "a"{3,2}', "{m,n} must go up"],
    ['root ::= "a"{99999999}', "at most 1000000 repetitions"],
    ['root ::= "a"**', "one repetition at a time"],
    ["root ::= [c-a]", "must go up"],
    ["root ::= Token(5)", "is a macro"],
    ['root ::= "\\uzzzz"', "needs hex digits"],
    ["::= b", "must begin with its name"],
  ])("%s is refused: %s", async (grammar, reason) => {
    await expect(compiler.compile({ grammar })).rejects.toMatchObject({
      code: "GRAMMAR_INVALID",
      message: expect.stringContaining(reason),
    });
  });
});
