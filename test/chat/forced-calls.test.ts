import { afterAll, describe, expect, test } from "vitest";
import { uniformAt } from "#base";
import { CALL_FORMATS, type CallableTool, type CallFormatName, callFormat } from "#chat";
import { GrammarCompiler, GrammarOptions } from "#sampling";
import { allows } from "../../src/sampling/token-mask.ts";
import { instanceOfTag } from "../support/schema-instance.ts";
import { loadTokenizer } from "../tokenizer/fixtures.ts";

const tools: readonly CallableTool[] = [
  {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", maxLength: 8 },
        unit: { enum: ["c", "f"] },
        days: { $ref: "#/$defs/days" },
      },
      required: ["city", "unit"],
      additionalProperties: false,
      $defs: { days: { type: "integer", minimum: 0, maximum: 9 } },
    },
  },
  {
    name: "find",
    parameters: { type: "object", properties: { limit: { type: "integer" } } },
  },
  { name: "now", parameters: null },
];

const context = {
  tools: new Map(tools.map(({ name, parameters }) => [name, parameters])),
  newId: () => "id",
};

function callsIn(name: CallFormatName, text: string) {
  const parser = callFormat(name).createParser(context);
  const calls: { name: string; arguments: string }[] = [];
  let content = "";
  for (const part of [...parser.push(text), ...parser.finish()]) {
    if (part.kind === "call") calls.push({ name: part.name, arguments: "" });
    else if (part.kind === "arguments") {
      const call = calls[part.index];
      if (call !== undefined) call.arguments += part.text;
    } else content += part.text;
  }
  return { content, calls };
}

const tokenizer = loadTokenizer("gpt2-byte-bpe");
const tokens = tokenizer.grammarVocabulary();
const stop = tokenizer.tokenId("<|im_end|>") ?? -1;
const vocabularySize = tokens.ends.length;
const compiler = new GrammarCompiler({
  ...{ tokens, vocabularySize, stopTokenIds: [stop], options: GrammarOptions.parse({}) },
});
afterAll(() => compiler.dispose());

/** Draws allowed tokens at random; after a while those that may close something. */
async function randomText(format: object, seed: number): Promise<string> {
  const grammar = await compiler.compile({ structuralTag: { type: "structural_tag", format } });
  const matcher = await grammar.createMatcher();
  grammar.dispose();
  const mask = new Uint32Array(Math.ceil(vocabularySize / 32));
  const ids: number[] = [];
  for (let step = 0; step < 600 && !matcher.isTerminated(); step++) {
    await matcher.fillBitmask(mask);
    const allowed = tokens.ends.reduce<number[]>((list, _, id) => {
      if (allows(mask, id)) list.push(id);
      return list;
    }, []);
    const closing = allowed.filter((id) =>
      /^[\]}",\d)<\n]/.test(tokenizer.vocabulary.token(id) ?? ""),
    );
    const choices = step > 40 && closing.length > 0 ? closing : allowed;
    const at = Math.floor(uniformAt({ low: seed, high: 0 }, step) * choices.length);
    const token = allowed.includes(stop) ? stop : (choices[at] ?? -1);
    expect(matcher.accept(token)).toBe(true);
    if (token !== stop) ids.push(token);
  }
  const done = matcher.isTerminated();
  matcher.dispose();
  return done ? tokenizer.decode(ids) : "";
}

describe.each(CALL_FORMATS)("%s", (name) => {
  test("its parser reads what it forces", () => {
    const format = callFormat(name).forced(tools, true);
    const text = instanceOfTag({ type: "structural_tag", format });
    const { content, calls } = callsIn(name, text);
    expect(content).toBe("");
    expect(calls).toHaveLength(1);
    expect(calls[0]?.name).toBe("get_weather");
    expect(JSON.parse(calls[0]?.arguments ?? "")).toMatchObject({ city: "word", unit: "c" });
  });

  test("random outputs of its grammar are calls with arguments of the schemas", async () => {
    let read = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const text = await randomText(callFormat(name).forced(tools, seed % 2 === 0), seed);
      if (text === "") continue;
      const { content, calls } = callsIn(name, text);
      expect(content.trim(), text).toBe("");
      expect(calls.length, text).toBeGreaterThan(0);
      if (seed % 2 === 0) expect(calls, text).toHaveLength(1);
      for (const call of calls) {
        const given = JSON.parse(call.arguments);
        if (call.name === "get_weather") {
          expect(typeof given.city, text).toBe("string");
          expect(["c", "f"], text).toContain(given.unit);
          if ("days" in given) expect(Number.isInteger(given.days), text).toBe(true);
        } else if (call.name === "now") {
          expect(given, text).toEqual({});
        }
      }
      read += 1;
    }
    expect(read).toBeGreaterThan(2);
  });
});
