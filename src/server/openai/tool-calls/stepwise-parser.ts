import type { OutputPart, ToolCallParser } from "./tool-call-parser.ts";

/** Reads text in steps. What cannot be told yet stays in `buffer` until more text comes. */
export abstract class StepwiseParser implements ToolCallParser {
  protected buffer = "";

  push(text: string): OutputPart[] {
    const parts: OutputPart[] = [];
    this.buffer += text;
    while (this.advance(parts));
    return parts;
  }

  finish(): OutputPart[] {
    const parts: OutputPart[] = [];
    this.close(parts);
    this.buffer = "";
    return parts;
  }

  /** One step; false when more text is needed. */
  protected abstract advance(parts: OutputPart[]): boolean;

  /** What the buffer means now that no more text comes. */
  protected abstract close(parts: OutputPart[]): void;
}

/** Adds a piece of content, unless there is nothing in it. */
export function addContent(parts: OutputPart[], text: string): void {
  if (text !== "") parts.push({ kind: "content", text });
}
