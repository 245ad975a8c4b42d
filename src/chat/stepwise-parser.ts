import type { OutputParser, OutputPart } from "./output-part.ts";

/** Parses text in steps. Undecided text stays in `buffer` until more text arrives. */
export abstract class StepwiseParser implements OutputParser {
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
