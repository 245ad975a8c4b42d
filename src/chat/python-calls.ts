import { argumentNames } from "./argument-schema.ts";
import type { CallReader } from "./call-reader.ts";
import type { CallWriter } from "./call-writer.ts";
import { NAME_MAX } from "./json-argument-calls.ts";
import { LiteralScanner } from "./literal-scanner.ts";
import type { JsonSchema, OutputPart } from "./output-part.ts";
import { jsonOfLiteral } from "./python-literal.ts";

/**
 * One call as Python writes it: `name(a=1, b="x")`, perhaps inside of `print(…)`. It begins when a
 * tool of the request is named; each argument is passed on when it is complete. Values that are no
 * literals become texts.
 */
export class PythonCall implements CallReader {
  readonly #writer: CallWriter;
  #name = "";
  #text = "";
  #schema: JsonSchema | null = null;
  #called = false;
  #scanner = new LiteralScanner("\"'");
  #argument = "";
  #count = 0;
  #ended = false;

  constructor(writer: CallWriter) {
    this.#writer = writer;
  }

  get called(): boolean {
    return this.#called;
  }

  push(text: string, parts: OutputPart[]): string | null {
    let place = 0;
    while (place < text.length) {
      const char = text.charAt(place);
      if (!this.#called) {
        if (!this.#readName(char, parts)) return text.slice(place);
      } else if (this.#readArgument(char, parts)) {
        return text.slice(place + 1);
      }
      place += 1;
    }
    return null;
  }

  /** A call that breaks off has the arguments that were complete. */
  finish(parts: OutputPart[]): string {
    if (!this.#called) return this.#text;
    if (!this.#ended) this.#endCall(parts);
    return "";
  }

  /** False: this is no call. */
  #readName(char: string, parts: OutputPart[]): boolean {
    const isSpace = /\s/.test(char);
    const { tools } = this.#writer.context;
    // Llama's own tools are objects with a method.
    const name = tools.has(this.#name) ? this.#name : this.#name.replace(/\.call$/, "");
    const schema = tools.get(name);
    if (char === "(" && schema !== undefined) {
      this.#schema = schema;
      this.#called = true;
      this.#writer.begin(parts, name);
      return true;
    }
    if (char === "(" && name === "print" && this.#text.length < NAME_MAX) {
      this.#name = "";
      this.#text += char;
      return true;
    }
    const isNamed = this.#name !== "";
    if (!(isSpace ? !isNamed : /[\w.]/.test(char)) || this.#text.length >= NAME_MAX) return false;
    if (!isSpace) this.#name += char;
    this.#text += char;
    return true;
  }

  /** True: the call ends with this character. */
  #readArgument(char: string, parts: OutputPart[]): boolean {
    const { outside } = this.#scanner;
    if (outside && (char === "," || char === ")")) {
      this.#endArgument(parts);
      if (char === ")") this.#endCall(parts);
      return char === ")";
    }
    this.#scanner.push(char);
    this.#argument += char;
    return false;
  }

  #endArgument(parts: OutputPart[]): void {
    const text = this.#argument.trim();
    this.#argument = "";
    this.#scanner = new LiteralScanner("\"'");
    if (text === "") return;
    const entries = this.#entries(text);
    if (entries === "") return;
    this.#writer.add(parts, (this.#count === 0 ? "{" : ", ") + entries);
    this.#count += 1;
  }

  /** JSON entries of one argument: `name=value`, `**{…}`, or a value by its place. */
  #entries(text: string): string {
    if (text.startsWith("**")) {
      const json = jsonOfLiteral(text.slice(2));
      if (json?.startsWith("{") === true) return json.slice(1, -1);
    }
    const named = /^(\w+)\s*=(?!=)/.exec(text);
    const name = named?.[1] ?? argumentNames(this.#schema)[this.#count] ?? `argument${this.#count}`;
    const value = named === null ? text : text.slice(named[0].length);
    return `${JSON.stringify(name)}: ${jsonOfLiteral(value) ?? JSON.stringify(value.trim())}`;
  }

  #endCall(parts: OutputPart[]): void {
    this.#ended = true;
    this.#writer.add(parts, this.#count === 0 ? "{}" : "}");
  }
}

/** What stands around several calls. */
export interface CallList {
  /** Characters between calls. */
  readonly between: RegExp;
  /** The mark behind the calls, which is left to the caller. */
  readonly end: string;
}

/** Several calls, up to a mark. */
export class PythonCalls implements CallReader {
  readonly #writer: CallWriter;
  readonly #list: CallList;
  #call: PythonCall | null = null;
  #called = false;
  #failed = false;
  /** Text since the last call. */
  #text = "";

  constructor(writer: CallWriter, list: CallList) {
    this.#writer = writer;
    this.#list = list;
  }

  get called(): boolean {
    return this.#called;
  }

  push(text: string, parts: OutputPart[]): string | null {
    let rest = text;
    while (rest !== "") {
      const char = rest.charAt(0);
      if (this.#call !== null) {
        const behind = this.#call.push(rest, parts);
        if (behind === null) return null;
        this.#endCall(parts);
        if (this.#failed) return behind;
        rest = behind;
      } else if (this.#list.end.startsWith(char)) {
        return rest;
      } else if (this.#list.between.test(char)) {
        this.#text += char;
        rest = rest.slice(1);
      } else {
        this.#call = new PythonCall(this.#writer);
      }
    }
    return null;
  }

  finish(parts: OutputPart[]): string {
    if (this.#call !== null) this.#endCall(parts);
    return this.#called && !this.#failed ? "" : this.#text;
  }

  #endCall(parts: OutputPart[]): void {
    if (this.#call === null) return;
    const text = this.#call.finish(parts);
    this.#failed = !this.#call.called;
    this.#called ||= this.#call.called;
    this.#text = this.#call.called ? "" : this.#text + text;
    this.#call = null;
  }
}
