/** One part of a model's output, in order. */
export type OutputPart =
  /** Text for the user. */
  | { readonly kind: "content"; readonly text: string }
  /** The model's thinking before its answer. */
  | { readonly kind: "reasoning"; readonly text: string }
  /** A call begins. `index` counts the calls of one output from 0. */
  | { readonly kind: "call"; readonly index: number; readonly id: string; readonly name: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

/** Splits one sequence's text into parts, as it arrives. */
export interface OutputParser {
  /** Takes more text; returns the parts that are certain now. */
  push(text: string): OutputPart[];
  /** Ends the text; returns the held-back parts. */
  finish(): OutputPart[];
}

/** A JSON schema of a tool's arguments. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The data of a request that parsers of calls need. */
export interface CallContext {
  /** The schemas of the request's tools by name; null: a tool without arguments. */
  readonly tools: ReadonlyMap<string, JsonSchema | null>;
  /** A fresh id for a call. */
  newId(): string;
}

/** White space at the beginning of a text that is looked through, at most. */
const LEADING_MAX = 1024;

/** The text behind white space; null: there is so much of it that nothing else is expected. */
export function beginningOf(text: string): string | null {
  const rest = text.trimStart();
  return text.length - rest.length > LEADING_MAX ? null : rest;
}

/** Adds a piece of content unless it is empty. */
export function addContent(parts: OutputPart[], text: string): void {
  if (text !== "") parts.push({ kind: "content", text });
}
