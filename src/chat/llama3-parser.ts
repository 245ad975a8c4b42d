import { CallEmitter, namesTool } from "./call-emitter.ts";
import { CallWriter } from "./call-writer.ts";
import { addContent, beginningOf, type CallContext, type OutputPart } from "./output-part.ts";
import { PythonCall } from "./python-calls.ts";
import { StepwiseParser } from "./stepwise-parser.ts";

/** The mark that Llama 3 may write before calls. */
export const PYTHON_TAG = "<|python_tag|>";

/**
 * Llama 3: the whole text is `{"name": …, "parameters": {…}}`, optionally after `<|python_tag|>`;
 * several calls are separated by `;`. Behind the tag `name.call(a="x")` is a call, too. An object
 * that names no tool of the request is content, like any other text: answers may be JSON.
 */
export class Llama3Parser extends StepwiseParser {
  readonly #writer: CallWriter;
  readonly #calls: CallEmitter;
  #state: "between" | "call" | "python" | "content" = "between";
  /** The tag, where nothing stood behind it yet. */
  #tag = "";
  #python: PythonCall | null = null;

  constructor(context: CallContext) {
    super();
    this.#writer = new CallWriter(context);
    this.#calls = new CallEmitter(this.#writer, namesTool(this.#writer));
  }

  protected override close(parts: OutputPart[]): void {
    if (this.#python !== null) {
      const text = this.#python.finish(parts);
      addContent(parts, this.#python.called ? text : this.#tag + text);
      return;
    }
    const raw = this.#state === "call" ? this.#calls.finishObject(parts) : this.buffer;
    if (raw === null) return;
    if (this.#writer.count === 0 || raw.trim() !== "") addContent(parts, this.#tag + raw);
  }

  protected override advance(parts: OutputPart[]): boolean {
    if (this.#state === "between") return this.#readBetween();
    if (this.#state === "call") return this.#readCall(parts);
    if (this.#state === "python") return this.#readPython(parts);
    addContent(parts, this.#tag + this.buffer);
    this.#tag = "";
    this.buffer = "";
    return false;
  }

  #readBetween(): boolean {
    const rest = this.buffer.replace(/^[\s;]+/, "");
    if (this.#writer.count > 0) this.buffer = rest;
    if (this.#writer.count === 0 && beginningOf(this.buffer) === null) {
      this.#state = "content";
      return true;
    }
    if (rest === "" || (rest !== PYTHON_TAG && PYTHON_TAG.startsWith(rest))) return false;
    if (rest.startsWith(PYTHON_TAG) && this.#tag === "") {
      this.#tag = PYTHON_TAG;
      this.buffer = rest.slice(PYTHON_TAG.length);
    } else if (rest.startsWith("{")) {
      this.buffer = rest;
      this.#state = "call";
    } else if (this.#tag !== "" && /^[A-Za-z_]/.test(rest)) {
      this.#python = new PythonCall(this.#writer);
      this.#state = "python";
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
    if (raw === null) this.#tag = "";
    else addContent(parts, this.#tag + raw);
    this.#tag = "";
    this.#state = raw === null ? "between" : "content";
    return true;
  }

  #readPython(parts: OutputPart[]): boolean {
    const rest = this.#python?.push(this.buffer, parts) ?? null;
    this.buffer = rest ?? "";
    if (rest === null || this.#python === null) return false;
    const text = this.#python.finish(parts);
    const { called } = this.#python;
    if (!called) addContent(parts, this.#tag + text);
    this.#tag = "";
    this.#python = null;
    this.#state = called ? "between" : "content";
    return true;
  }
}
