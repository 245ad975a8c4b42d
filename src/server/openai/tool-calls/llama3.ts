import { CallEmitter } from "./call-emitter.ts";
import { addContent, StepwiseParser } from "./stepwise-parser.ts";
import type { CallFraming, OutputPart, ToolCallContext } from "./tool-call-parser.ts";

const PYTHON_TAG = "<|python_tag|>";

/** The format of calls, for grammars that force them. */
export const LLAMA3_FRAMING: CallFraming = {
  begin: (name) => `{"name": ${JSON.stringify(name)}, "parameters": `,
  end: "}",
  separator: "; ",
};

/**
 * Llama 3: the whole text is `{"name": …, "parameters": {…}}`, optionally after `<|python_tag|>`;
 * several calls are separated by `;`. An object that names no tool of the request is content, like
 * any other text: answers may be JSON.
 */
export class Llama3Parser extends StepwiseParser {
  readonly #calls: CallEmitter;
  #state: "between" | "call" | "content" = "between";

  constructor(context: ToolCallContext) {
    super();
    this.#calls = new CallEmitter(
      context,
      (reader) => reader.hasArguments && context.toolNames.has(reader.name ?? ""),
    );
  }

  protected override close(parts: OutputPart[]): void {
    const raw = this.#state === "call" ? this.#calls.finishObject(parts) : this.buffer;
    if (raw !== null && (this.#calls.count === 0 || raw.trim() !== "")) addContent(parts, raw);
  }

  protected override advance(parts: OutputPart[]): boolean {
    if (this.#state === "between") return this.#readBetween();
    if (this.#state === "call") return this.#readCall(parts);
    addContent(parts, this.buffer);
    this.buffer = "";
    return false;
  }

  #readBetween(): boolean {
    const rest = this.buffer.replace(/^[\s;]+/, "");
    if (this.#calls.count > 0) this.buffer = rest;
    if (rest === "" || (rest !== PYTHON_TAG && PYTHON_TAG.startsWith(rest))) return false;
    if (rest.startsWith(PYTHON_TAG)) {
      this.buffer = rest.slice(PYTHON_TAG.length);
    } else if (rest.startsWith("{")) {
      this.buffer = rest;
      this.#state = "call";
    } else {
      this.#state = "content";
    }
    return true;
  }

  #readCall(parts: OutputPart[]): boolean {
    const rest = this.#calls.push(this.buffer, parts);
    this.buffer = rest ?? "";
    if (rest === null) return false;
    const raw = this.#calls.finishObject(parts);
    if (raw !== null) addContent(parts, raw);
    this.#state = raw === null ? "between" : "content";
    return true;
  }
}
