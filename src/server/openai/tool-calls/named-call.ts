import type { OutputPart, ToolCallContext, ToolCallParser } from "./tool-call-parser.ts";

/** The client named the tool, and a grammar made the whole text its arguments. */
export class NamedCallParser implements ToolCallParser {
  readonly #context: ToolCallContext;
  readonly #name: string;
  #started = false;

  constructor(context: ToolCallContext, name: string) {
    this.#context = context;
    this.#name = name;
  }

  push(text: string): OutputPart[] {
    if (text === "") return [];
    const parts: OutputPart[] = [];
    if (!this.#started) {
      this.#started = true;
      parts.push({ kind: "call", index: 0, id: this.#context.newId(), name: this.#name });
    }
    parts.push({ kind: "arguments", index: 0, text });
    return parts;
  }

  finish(): OutputPart[] {
    return [];
  }
}
