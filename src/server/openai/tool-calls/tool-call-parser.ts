/** One part of a model's output that may contain tool calls, in order. */
export type OutputPart =
  /** Text for the user. */
  | { readonly kind: "content"; readonly text: string }
  /** A call begins. `index` counts the calls of one output from 0. */
  | { readonly kind: "call"; readonly index: number; readonly id: string; readonly name: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

/** Splits one sequence's text into content and tool calls, as it arrives. */
export interface ToolCallParser {
  /** Takes more text; returns the parts that are certain now. */
  push(text: string): OutputPart[];
  /** Ends the text; returns the held-back parts. */
  finish(): OutputPart[];
}

/** The text around a call's arguments. */
export interface CallFraming {
  begin(toolName: string): string;
  readonly end: string;
  /** Between two calls. */
  readonly separator: string;
}

/** The data of a request that tool call parsers need. */
export interface ToolCallContext {
  /** Names of the request's tools. */
  readonly toolNames: ReadonlySet<string>;
  /** A fresh id for a call. */
  newId(): string;
}
