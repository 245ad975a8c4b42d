/** What the text of a model that may call tools consists of, in order. */
export type OutputPart =
  /** Text for the user. */
  | { readonly kind: "content"; readonly text: string }
  /** A call begins. `index` counts the calls of one output from 0. */
  | { readonly kind: "call"; readonly index: number; readonly id: string; readonly name: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

/** Splits one sequence's text into content and tool calls, as it arrives. */
export interface ToolCallParser {
  /** Takes more text; returns what is certain now. */
  push(text: string): OutputPart[];
  /** The text is over; returns what was held back. */
  finish(): OutputPart[];
}

/** The text round a call's arguments. */
export interface CallFraming {
  begin(toolName: string): string;
  readonly end: string;
  /** Between two calls. */
  readonly separator: string;
}

/** How a tool call is told from text, beyond its format. */
export interface ToolCallContext {
  /** Names of the request's tools. */
  readonly toolNames: ReadonlySet<string>;
  /** A fresh id for a call. */
  newId(): string;
}
