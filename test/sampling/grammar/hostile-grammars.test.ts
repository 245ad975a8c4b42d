/** Grammars that ended, blocked or filled a server: each is refused by a limit's name, or works. */
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { GrammarCompiler, type GrammarMatcher, GrammarOptions } from "#sampling";
import type { StructuredOutput } from "../../../src/sampling/sampling-params.ts";
import { allows } from "../../../src/sampling/token-mask.ts";
import { sized } from "../../support/full.ts";
import { tokenBytesOf } from "../../support/token-bytes.ts";

const stop = 256;
const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
const made: GrammarCompiler[] = [];

/** A compiler whose tokens are single bytes. */
function compilerWith(limits: Partial<GrammarOptions> = {}): GrammarCompiler {
  const compiler = new GrammarCompiler({
    tokens: tokenBytesOf([...bytes, ""]),
    vocabularySize: 257,
    stopTokenIds: [stop],
    options: GrammarOptions.parse(limits),
  });
  made.push(compiler);
  return compiler;
}
afterAll(() => {
  for (const compiler of made) compiler.dispose();
});
const compiler = compilerWith();

async function matcherOf(output: StructuredOutput, of = compiler): Promise<GrammarMatcher> {
  const grammar = await of.compile(output);
  const matcher = await grammar.createMatcher();
  grammar.dispose();
  return matcher;
}

/** What comes of `text`: "ends" where the output may end there, "goes on", or "refused". */
async function reading(matcher: GrammarMatcher, text: string): Promise<string> {
  const mask = new Uint32Array(9);
  for (const byte of new TextEncoder().encode(text)) {
    await matcher.fillBitmask(mask);
    if (!allows(mask, byte)) return "refused";
    expect(matcher.accept(byte)).toBe(true);
  }
  await matcher.fillBitmask(mask);
  return allows(mask, stop) ? "ends" : "goes on";
}

async function read(output: StructuredOutput, text: string, of = compiler): Promise<string> {
  const matcher = await matcherOf(output, of);
  const result = await reading(matcher, text);
  matcher.dispose();
  return result;
}

const refused = (setting: string) => ({
  code: "GRAMMAR_INVALID",
  message: expect.stringContaining(setting),
});

/** `count` schemas, each an object with the next, the last a string. */
function linked(count: number): StructuredOutput {
  const names = Array.from({ length: count }, (_, place) => `d${place}`);
  const $defs = Object.fromEntries(
    names.map((name, place) => {
      const next = { $ref: `#/$defs/d${place + 1}` };
      const isLast = place === count - 1;
      return [name, isLast ? { type: "string" } : { type: "object", properties: { next } }];
    }),
  );
  return { json: { $defs, $ref: "#/$defs/d0" } };
}

function optionalStrings(count: number): StructuredOutput {
  const names = Array.from({ length: count }, (_, place) => [`p${place}`, { type: "string" }]);
  return { json: { type: "object", properties: Object.fromEntries(names) } };
}

/** Costs seconds to compile, and gigabytes: 5,000 members in each of 1,000 branches. */
const explosive: StructuredOutput = {
  json: {
    allOf: [
      { anyOf: Array.from({ length: 1_000 }, () => ({})) },
      {
        type: "object",
        properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}`, {}])),
      },
    ],
  },
};

describe("what a schema or a grammar may cost to compile", () => {
  test.each([40, 60, 500])(
    "%i linked references compile, and mean what they say",
    async (count) => {
      const { length } = '{"next":';
      const text = '{"next":'.repeat(count - 1);
      expect(text).toHaveLength(length * (count - 1));
      expect(await read(linked(count), `${text}"x"${"}".repeat(count - 1)}`)).toBe("ends");
      expect(await read(linked(count), `${text}7`)).toBe("refused");
    },
  );

  test("12,000 chained rules of EBNF compile", async () => {
    const rules = Array.from({ length: 12_000 }, (_, i) => `r${i} ::= r${i + 1}`);
    const grammar = ["root ::= r0", ...rules, 'r12000 ::= "x"'].join("\n");
    const patient = compilerWith({ compileMsMax: 120_000 });
    expect(await read({ grammar }, "x", patient)).toBe("ends");
  }, 120_000);

  test("objects of 50 and 200 optional strings compile, and mean what they say", async () => {
    expect(await read(optionalStrings(50), '{"p3":"x","p49":"y"}')).toBe("ends");
    expect(await read(optionalStrings(50), '{"p3":"x","p2"')).toBe("refused");
    expect(await read(optionalStrings(200), '{"p0":"x","p199":"y"}')).toBe("ends");
  });

  test("a grammar that takes too long is refused by name, while others compile", async () => {
    const hasty = compilerWith({ compileMsMax: 300, memoryBytesMax: 2 ** 40 });
    let turns = 0;
    let isOver = false;
    const refusal = hasty.compile(explosive).finally(() => {
      isOver = true;
    });
    refusal.catch(() => null); // looked at below
    const other = matcherOf({ regex: "a+" }, compiler);
    while (!isOver) {
      await turn();
      turns++;
    }
    await expect(refusal).rejects.toMatchObject(refused("grammar.compileMsMax"));
    // The thread went on: a turn takes microseconds.
    expect(turns).toBeGreaterThan(100);
    expect(await reading(await other, "aa")).toBe("ends");
    expect(await read({ regex: "b" }, "b", hasty)).toBe("ends");
  });

  test("a refused grammar is not tried a second time", async () => {
    const hasty = compilerWith({ compileMsMax: 300, memoryBytesMax: 2 ** 40 });
    const first = await hasty.compile(explosive).catch((error: unknown) => error);
    const second = await hasty.compile(explosive).catch((error: unknown) => error);
    expect(first).toMatchObject(refused("grammar.compileMsMax"));
    expect(second).toBe(first);
  });

  test("what takes too much memory to compile is refused by name", async () => {
    const small = compilerWith({ compileMsMax: 60_000, memoryBytesMax: 32 * 2 ** 20 });
    await expect(small.compile(explosive)).rejects.toMatchObject(refused("grammar.memoryBytesMax"));
    expect(await read({ regex: "b" }, "b", small)).toBe("ends");
  });

  test("grammars that are asked for at once are compiled once each, and all are served", async () => {
    const outputs = Array.from({ length: 60 }, (_, i) => ({ choice: [`choice ${i % 7}`] }));
    const texts = outputs.map(async (output, i) => await read(output, `choice ${i % 7}`));
    expect(new Set(await Promise.all(texts))).toEqual(new Set(["ends"]));
  });
});

describe("what a grammar may cost while it is followed", () => {
  const ambiguous = { grammar: 'root ::= "a" root "a" | "a" root | root "a" | ""' };

  test("an ambiguous grammar ends by the limit's name, and its neighbours go on", async () => {
    const strict = compilerWith({ ambiguityMax: 300 });
    const matchers = await Promise.all(
      Array.from({ length: sized(6, 24) }, () => matcherOf(ambiguous, strict)),
    );
    const neighbour = await matcherOf({ regex: "a{500}" }, strict);
    for (const matcher of matchers) {
      await expect(reading(matcher, "a".repeat(2_000))).rejects.toMatchObject(
        refused("grammar.ambiguityMax"),
      );
      matcher.dispose();
    }
    expect(await reading(neighbour, "a".repeat(500))).toBe("ends");
    neighbour.dispose();
    // The next request gets a grammar that nothing happened to.
    expect(await read(ambiguous, "aaa", strict)).toBe("ends");
  });

  test("memory of an output has a limit, which ends it by name", async () => {
    const strict = compilerWith({ memoryBytesMax: 2 ** 20, averageWorkMax: 1e9 });
    await expect(read(ambiguous, "a".repeat(5_000), strict)).rejects.toMatchObject(
      refused("grammar.memoryBytesMax"),
    );
  });

  test("a repetition of repetitions compiles, and ends by the limit's name where it goes too far", async () => {
    const nested = { regex: "(([a-z]{1,200}){1,200}){1,30}" };
    expect(await read(nested, "a")).toBe("ends");
    const strict = compilerWith({ tokenWorkMax: 1_000 });
    await expect(read(nested, "a".repeat(300), strict)).rejects.toMatchObject(
      refused("grammar.tokenWorkMax"),
    );
  });

  test("a request's masks have a limit on average, all its sequences together", async () => {
    const strict = compilerWith({ averageWorkMax: 100 });
    const grammar = await strict.compile(ambiguous);
    const follow = async (): Promise<void> => {
      const matcher = await grammar.createMatcher();
      try {
        await reading(matcher, "a".repeat(60));
      } finally {
        matcher.dispose();
      }
    };
    const all = Promise.all(Array.from({ length: 24 }, follow));
    await expect(all).rejects.toMatchObject(refused("grammar.averageWorkMax"));
    grammar.dispose();
    expect(await read({ regex: "[a-z]{40}" }, "a".repeat(40), strict)).toBe("ends");
  });
});

describe("grammars without an output are refused", () => {
  test("at the place where nothing can follow, if that shows only there", async () => {
    const never = { type: "json_schema", json_schema: { $ref: "#" } };
    const start = { type: "grammar", grammar: 'root ::= "a"' };
    const structuralTag = { format: { type: "sequence", elements: [start, never] } };
    await expect(read({ structuralTag }, "a")).rejects.toMatchObject(refused("allows none"));
  });

  test.each<[string, StructuredOutput]>([
    ["a rule that only repeats itself", { grammar: 'root ::= root "a"' }],
    ["rules that never end", { grammar: 'root ::= "a" x\nx ::= "b" root' }],
    ["no character at all", { regex: "[^\\s\\S]" }],
    ["a schema that refers to itself alone", { json: { $ref: "#" } }],
    ["an enum of nothing", { json: { enum: [] } }],
    ["types that exclude each other", { json: { allOf: [{ type: "string" }, { type: "null" }] } }],
    ["structures that are no objects", { structuralTag: { structures: [null], triggers: ["<"] } }],
    ["no structures", { structuralTag: { structures: [], triggers: [] } }],
  ])("%s", async (_, output) => {
    await expect(compiler.compile(output)).rejects.toMatchObject({ code: "GRAMMAR_INVALID" });
  });
});

describe("whitespace of JSON", () => {
  const pair = {
    json: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      required: ["a", "b"],
    },
  };

  test.each([
    ['{"a":1,"b":2}', "ends"],
    ['{"a": 1, "b": 2}', "ends"],
    ['{"a":  1', "refused"],
    ['{ "a"', "refused"],
    ['{"a":1\n', "refused"],
  ])("is compact: %j %s", async (text, result) => {
    expect(await read(pair, text)).toBe(result);
  });

  test.each([
    ['{\n  "a": 1,\n  "b": 2\n}', "ends"],
    ['{"a":1,"b":2}', "ends"],
    ['{    "a"', "refused"],
  ])("has at most whitespaceMax characters: %j %s", async (text, result) => {
    expect(await read(pair, text, compilerWith({ whitespaceMax: 3 }))).toBe(result);
  });
});
