import { CallWriter } from "./call-writer.ts";
import {
  addContent,
  beginningOf,
  type CallContext,
  type OutputParser,
  type OutputPart,
} from "./output-part.ts";
import { PythonCalls } from "./python-calls.ts";
import { StepwiseParser } from "./stepwise-parser.ts";

const START = "<|python_start|>";
const END = "<|python_end|>";

/** The marks that models of this format may write around the list. */
export const PYTHONIC_MARKS: readonly string[] = [START, END];

/**
 * The whole text is a Python list of calls, `[f(a=1), g(b="x")]`, perhaps between the marks. A
 * text that begins otherwise, or whose first call names no tool, is read by `otherwise`.
 */
export class PythonicParser extends StepwiseParser {
  readonly #otherwise: OutputParser;
  readonly #calls: PythonCalls;
  #state: "start" | "calls" | "behind" | "text" | "otherwise" = "start";
  #opening = "";
  /** There is text behind the calls. */
  #speaks = false;

  constructor(context: CallContext, otherwise: OutputParser) {
    super();
    this.#otherwise = otherwise;
    this.#calls = new PythonCalls(new CallWriter(context), { between: /[\s,]/, end: "]" });
  }

  protected override close(parts: OutputPart[]): void {
    if (this.#state === "calls") this.#endCalls(parts);
    const isBehind = this.#state === "behind" || this.#state === "text";
    if (isBehind && this.buffer.trim() !== "") addContent(parts, this.buffer);
    if (this.#state === "start" || this.#state === "otherwise") {
      parts.push(...this.#otherwise.push(this.buffer), ...this.#otherwise.finish());
    }
  }

  protected override advance(parts: OutputPart[]): boolean {
    switch (this.#state) {
      case "start":
        return this.#readStart();
      case "calls":
        return this.#readCalls(parts);
      case "behind":
        return this.#readBehind();
      case "text":
        return this.#readText(parts);
      default:
        parts.push(...this.#otherwise.push(this.buffer));
        this.buffer = "";
        return false;
    }
  }

  #readStart(): boolean {
    const rest = beginningOf(this.buffer);
    if (rest !== null && START.startsWith(rest) && rest !== START) return false;
    const list = rest?.startsWith(START) === true ? beginningOf(rest.slice(START.length)) : rest;
    if (list === "") return false;
    if (list?.startsWith("[") === true) {
      this.#opening = this.buffer.slice(0, this.buffer.length - list.length + 1);
      this.buffer = list.slice(1);
      this.#state = "calls";
    } else {
      this.#state = "otherwise";
    }
    return true;
  }

  #readCalls(parts: OutputPart[]): boolean {
    const rest = this.#calls.push(this.buffer, parts);
    this.buffer = rest ?? "";
    if (rest === null) return false;
    this.#endCalls(parts);
    return true;
  }

  #endCalls(parts: OutputPart[]): void {
    const text = this.#calls.finish(parts);
    if (this.#calls.called) {
      const isClosed = text === "" && this.buffer.startsWith("]");
      this.buffer = text + (isClosed ? this.buffer.slice(1) : this.buffer);
      this.#state = "behind";
    } else {
      this.buffer = this.#opening + text + this.buffer;
      this.#state = "otherwise";
    }
  }

  /** The mark behind the calls, which may be missing. */
  #readBehind(): boolean {
    const rest = this.buffer.trimStart();
    if (END.startsWith(rest) && rest !== END) return false;
    this.buffer = rest.startsWith(END) ? rest.slice(END.length) : rest;
    this.#state = "text";
    return true;
  }

  /** White space alone is layout. */
  #readText(parts: OutputPart[]): boolean {
    if (!this.#speaks && beginningOf(this.buffer) === "") return false;
    this.#speaks = true;
    addContent(parts, this.buffer);
    this.buffer = "";
    return false;
  }
}
