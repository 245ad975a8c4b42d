import { CallEmitter } from "./call-emitter.ts";
import { addContent, StepwiseParser } from "./stepwise-parser.ts";
import type { CallFraming, OutputPart, ToolCallContext } from "./tool-call-parser.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** The format of calls, for grammars that force them. */
export const HERMES_FRAMING: CallFraming = {
  begin: (name) => `${OPEN}\n{"name": ${JSON.stringify(name)}, "arguments": `,
  end: `}\n${CLOSE}`,
  separator: "\n",
};

/**
 * Hermes and Qwen: text, then calls as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
 * White space next to calls is layout, not content.
 */
export class HermesParser extends StepwiseParser {
  readonly #calls: CallEmitter;
  #state: "text" | "call" | "closing" = "text";

  constructor(context: ToolCallContext) {
    super();
    this.#calls = new CallEmitter(context, (reader) => reader.name !== null);
  }

  protected override close(parts: OutputPart[]): void {
    if (this.#state === "call") {
      const raw = this.#calls.finishObject(parts);
      if (raw !== null) addContent(parts, OPEN + raw);
    } else if (this.#calls.count === 0 || this.buffer.trim() !== "") {
      addContent(parts, this.buffer);
    }
  }

  protected override advance(parts: OutputPart[]): boolean {
    if (this.#state === "text") return this.#readText(parts);
    if (this.#state === "call") return this.#readCall(parts);
    return this.#readClosing();
  }

  #readText(parts: OutputPart[]): boolean {
    const open = this.buffer.indexOf(OPEN);
    if (open >= 0) {
      addContent(parts, this.buffer.slice(0, open).trimEnd());
      this.buffer = this.buffer.slice(open + OPEN.length);
      this.#state = "call";
      return true;
    }
    const kept = heldBack(this.buffer);
    addContent(parts, this.buffer.slice(0, this.buffer.length - kept));
    this.buffer = this.buffer.slice(this.buffer.length - kept);
    return false;
  }

  #readCall(parts: OutputPart[]): boolean {
    const rest = this.#calls.push(this.buffer, parts);
    this.buffer = rest ?? "";
    if (rest === null) return false;
    const raw = this.#calls.finishObject(parts);
    if (raw !== null) addContent(parts, OPEN + raw);
    this.#state = raw === null ? "closing" : "text";
    return true;
  }

  /** A closing tag may be missing: models omit it. */
  #readClosing(): boolean {
    const rest = this.buffer.trimStart();
    if (CLOSE.startsWith(rest) && rest !== CLOSE) return false;
    this.buffer = rest.startsWith(CLOSE) ? rest.slice(CLOSE.length) : this.buffer;
    this.#state = "text";
    return true;
  }
}

/** Length of the suffix of `text` that may belong to a call: white space, then part of the tag. */
function heldBack(text: string): number {
  let tag = Math.min(OPEN.length - 1, text.length);
  while (tag > 0 && !OPEN.startsWith(text.slice(text.length - tag))) tag -= 1;
  return text.length - text.slice(0, text.length - tag).trimEnd().length;
}
