import type { OutputPart, ToolCallParser } from "./tool-call-parser.ts";

/** Parses text in steps. Undecided text stays in `buffer` until more text arrives. */
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

  /** Parses the rest of the buffer at the end of the text. */
  protected abstract close(parts: OutputPart[]): void;
}

/** Adds a piece of content unless it is empty. */
export function addContent(parts: OutputPart[], text: string): void {
  if (text !== "") parts.push({ kind: "content", text });
}
