/** The structured output of a request, as plain data that can be checked, compared and sent. */
import { EngineError } from "#base";
import type { GrammarOptions } from "../config.ts";
import type { StructuredOutput } from "../sampling-params.ts";

/** A constraint of an output, in one of the grammar languages. */
export interface GrammarSource {
  readonly kind: "schema" | "regex" | "choice" | "ebnf" | "tag";
  /** A JSON schema, a regular expression, a JSON list of strings, EBNF, or a tag as JSON. */
  readonly text: string;
}

/** The error of an unusable grammar. `wanted`: the requirement, and the actual value. */
export function grammarInvalid(wanted: string, cause?: unknown): EngineError {
  return new EngineError("GRAMMAR_INVALID", `Cannot compile the grammar: ${wanted}`, {
    cause,
    param: "structured_output",
  });
}

const openers = "([{";
const closers = ")]}";

/** Nesting depth of brackets in `text`, whatever their meaning. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let place = 0; place < text.length; place++) {
    const char = text.charAt(place);
    if (openers.includes(char)) deepest = Math.max(deepest, ++depth);
    else if (closers.includes(char)) depth = Math.max(0, depth - 1);
  }
  return deepest;
}

/** A JSON value, given as text or as an object, as text. */
function jsonText(value: unknown, name: string): string {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    return JSON.stringify(JSON.parse(value));
  } catch (error) {
    throw grammarInvalid(`${name} must be JSON, it is not`, error);
  }
}

function sourceOf(output: StructuredOutput): GrammarSource {
  if (output.json !== undefined) return { kind: "schema", text: jsonText(output.json, "schema") };
  if (output.jsonObject !== undefined) return { kind: "schema", text: '{"type":"object"}' };
  if (output.regex !== undefined) return { kind: "regex", text: output.regex };
  if (output.choice !== undefined) return { kind: "choice", text: JSON.stringify(output.choice) };
  if (output.grammar !== undefined) return { kind: "ebnf", text: output.grammar };
  return { kind: "tag", text: jsonText(output.structuralTag, "structural_tag") };
}

/**
 * The source of `output`. Costs one pass over it. Throws GRAMMAR_INVALID for text that is no JSON,
 * too long or too deep.
 */
export function grammarSource(output: StructuredOutput, options: GrammarOptions): GrammarSource {
  const { sourceCharsMax, nestingMax } = options;
  const source = sourceOf(output);
  const { length } = source.text;
  if (length > sourceCharsMax) {
    const wanted = `it must have at most ${sourceCharsMax} characters (grammar.sourceCharsMax)`;
    throw grammarInvalid(`${wanted}, it has ${length}`);
  }
  const depth = source.kind === "choice" ? 0 : depthOf(source.text);
  if (depth > nestingMax) {
    const wanted = `it must nest at most ${nestingMax} levels deep (grammar.nestingMax)`;
    throw grammarInvalid(`${wanted}, it nests ${depth}`);
  }
  return source;
}
