/** What a request asks of its output, in one of the forms that the grammar library reads. */
import { EngineError } from "#base";
import type { StructuredOutput } from "./sampling-params.ts";

export interface GrammarSource {
  readonly kind: "schema" | "ebnf" | "tag";
  /** A JSON schema, an EBNF grammar, or a structural tag as JSON. */
  readonly text: string;
}

/** Longest source, in UTF-16 units; and deepest nesting: the library recurses on a small stack. */
const lengthMax = 262_144;
const depthMax = 32;

export function grammarInvalid(wanted: string, cause?: unknown): EngineError {
  return new EngineError("GRAMMAR_INVALID", `Cannot compile the grammar: ${wanted}`, {
    cause,
    param: "structured_output",
  });
}

const openers = "([{";
const closers = ")]}";

/** How deep brackets nest in `text`, whatever they mean there. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const char of text) {
    if (openers.includes(char)) deepest = Math.max(deepest, ++depth);
    else if (closers.includes(char)) depth = Math.max(0, depth - 1);
  }
  return deepest;
}

function checked(source: GrammarSource): GrammarSource {
  const { length } = source.text;
  if (length > lengthMax) {
    throw grammarInvalid(`it must have at most ${lengthMax} characters, it has ${length}`);
  }
  const depth = depthOf(source.text);
  if (depth > depthMax) {
    throw grammarInvalid(`it must nest at most ${depthMax} levels deep, it nests ${depth}`);
  }
  return source;
}

/** A JSON value that came as text or as an object, as text. */
function jsonText(value: unknown, name: string): string {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    return JSON.stringify(JSON.parse(value));
  } catch (error) {
    throw grammarInvalid(`${name} must be JSON, it is not`, error);
  }
}

/** A string as an EBNF literal. Everything but plain ASCII is written as \u or \U escapes. */
function literal(text: string): string {
  const escaped = Array.from(text, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (char === '"' || char === "\\") return `\\${char}`;
    if (code >= 0x20 && code < 0x7f) return char;
    const hex = code.toString(16);
    return code > 0xffff ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
  });
  return `"${escaped.join("")}"`;
}

function formatTag(format: object): GrammarSource {
  return { kind: "tag", text: JSON.stringify({ type: "structural_tag", format }) };
}

interface LegacyTag {
  readonly begin: string;
  readonly schema?: unknown;
  readonly end: string;
}

/** vLLM's older form, `{ structures, triggers }`, in terms of the newer. */
function structuralTag(value: unknown): GrammarSource {
  const text = jsonText(value, "structural_tag");
  const tag: unknown = JSON.parse(text);
  if (typeof tag !== "object" || tag === null) throw grammarInvalid("a tag must be an object");
  if (!("structures" in tag)) {
    return "format" in tag ? { kind: "tag", text } : formatTag(tag);
  }
  const { structures } = tag;
  const triggers = "triggers" in tag ? tag.triggers : [];
  if (!Array.isArray(structures)) throw grammarInvalid("structures must be a list");
  const tags = structures.map(({ begin, schema, end }: LegacyTag) => ({
    type: "tag",
    ...{ begin, end },
    content: { type: "json_schema", json_schema: schema ?? {} },
  }));
  return formatTag({ type: "triggered_tags", triggers, tags });
}

function sourceOf(output: StructuredOutput): GrammarSource {
  if (output.json !== undefined) return { kind: "schema", text: jsonText(output.json, "schema") };
  if (output.jsonObject !== undefined) return { kind: "schema", text: '{"type":"object"}' };
  if (output.regex !== undefined) return formatTag({ type: "regex", pattern: output.regex });
  if (output.choice !== undefined) {
    return { kind: "ebnf", text: `root ::= ${output.choice.map(literal).join(" | ")}` };
  }
  if (output.grammar !== undefined) return { kind: "ebnf", text: output.grammar };
  return structuralTag(output.structuralTag);
}

/** Throws GRAMMAR_INVALID for what is no JSON, too long or too deep. */
export function grammarSource(output: StructuredOutput): GrammarSource {
  return checked(sourceOf(output));
}
