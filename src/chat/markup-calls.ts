import { argumentSchema, isTextual } from "./argument-schema.ts";
import type { CallReader } from "./call-reader.ts";
import type { CallWriter } from "./call-writer.ts";
import { JsonArguments, NAME_MAX } from "./json-argument-calls.ts";
import { partLength } from "./marked-parser.ts";
import { beginningOf, type JsonSchema, type OutputPart } from "./output-part.ts";
import { jsonOfLiteral } from "./python-literal.ts";

const PARAMETER = "<parameter=";
const PARAMETER_END = "</parameter>";
const FUNCTION_END = "</function>";

/** The mark of a call in this notation; its reader begins behind it. */
export const FUNCTION = "<function=";

type Place = "name" | "between" | "key" | "value" | "json" | "done" | "failed";

/**
 * Qwen3-Coder's notation, behind `<function=`: `name>` and parameters as
 * `<parameter=key>value</parameter>`, up to `</function>`. Texts are passed on as they come, other
 * values when they are complete. Llama 3.1's JSON object in the place of parameters is read, too.
 */
export class MarkupCalls implements CallReader {
  readonly #writer: CallWriter;
  readonly #knownOnly: boolean;
  #place: Place = "name";
  #buffer = "";
  #schema: JsonSchema | null = null;
  #value: TextValue | LiteralValue | null = null;
  #json: JsonArguments | null = null;
  #count = 0;
  #called = false;

  /** `knownOnly`: a name that is no tool of the request is text. */
  constructor(writer: CallWriter, knownOnly: boolean) {
    this.#writer = writer;
    this.#knownOnly = knownOnly;
  }

  get called(): boolean {
    return this.#called;
  }

  push(text: string, parts: OutputPart[]): string | null {
    this.#buffer += text;
    while (this.#place !== "done" && this.#place !== "failed" && this.#step(parts));
    if (this.#place !== "done" && this.#place !== "failed") return null;
    const rest = this.#buffer;
    this.#buffer = "";
    return rest;
  }

  finish(parts: OutputPart[]): string {
    const text = this.#buffer;
    this.#buffer = "";
    if (!this.#called) return text;
    if (this.#json !== null) {
      this.#json.finish(parts);
      return "";
    }
    if (this.#value !== null) this.#writer.add(parts, this.#value.end(text));
    this.#writer.add(parts, this.#count === 0 ? "{}" : "}");
    return "";
  }

  /** False when more text is needed. */
  #step(parts: OutputPart[]): boolean {
    switch (this.#place) {
      case "name":
        return this.#readHead((name) => this.#begin(name, parts));
      case "key":
        return this.#readHead((key) => this.#beginValue(key, parts));
      case "between":
        return this.#readBetween();
      case "value":
        return this.#readValue(parts);
      default:
        return this.#readJson(parts);
    }
  }

  /** A name up to `>`. */
  #readHead(use: (name: string) => void): boolean {
    const end = this.#buffer.indexOf(">");
    if (end < 0 && this.#buffer.length <= NAME_MAX) return false;
    const name = this.#buffer.slice(0, Math.max(end, 0)).trim();
    if (!/^[\w.-]{1,128}$/.test(name)) {
      this.#place = "failed";
      return false;
    }
    use(name);
    if (this.#place !== "failed") this.#buffer = this.#buffer.slice(end + 1);
    return this.#place !== "failed";
  }

  #begin(name: string, parts: OutputPart[]): void {
    const { tools } = this.#writer.context;
    if (this.#knownOnly && !tools.has(name)) {
      this.#place = "failed";
      return;
    }
    this.#schema = tools.get(name) ?? null;
    this.#called = true;
    this.#place = "between";
    this.#writer.begin(parts, name);
  }

  #readBetween(): boolean {
    const rest = this.#buffer.trimStart();
    this.#buffer = rest;
    if (rest === "") return false;
    const marks = this.#json === null ? [PARAMETER, FUNCTION_END] : [FUNCTION_END];
    const found = marks.find((mark) => rest.startsWith(mark));
    if (found !== undefined) {
      this.#buffer = rest.slice(found.length);
      this.#place = found === PARAMETER ? "key" : "done";
    } else if (rest.startsWith("{") && this.#count === 0 && this.#json === null) {
      this.#json = new JsonArguments(this.#writer);
      this.#place = "json";
    } else if (marks.some((mark) => mark.startsWith(rest))) {
      return false;
    } else {
      this.#place = "done"; // a model may omit the closing tag
    }
    return true;
  }

  #beginValue(key: string, parts: OutputPart[]): void {
    const schema = argumentSchema(this.#schema, key);
    this.#value = isTextual(schema) ? new TextValue() : new LiteralValue(schema === null);
    this.#writer.add(parts, `${this.#count === 0 ? "{" : ", "}${JSON.stringify(key)}: `);
    this.#count += 1;
    this.#place = "value";
  }

  #readValue(parts: OutputPart[]): boolean {
    const value = this.#value;
    if (value === null) return false;
    const end = this.#buffer.indexOf(PARAMETER_END);
    if (end >= 0) {
      this.#writer.add(parts, value.end(this.#buffer.slice(0, end)));
      this.#buffer = this.#buffer.slice(end + PARAMETER_END.length);
      this.#value = null;
      this.#place = "between";
      return true;
    }
    const sure =
      this.#buffer.length - partLength(this.#buffer, [`\n${PARAMETER_END}`, PARAMETER_END]);
    this.#writer.add(parts, value.push(this.#buffer.slice(0, sure)));
    this.#buffer = this.#buffer.slice(sure);
    return false;
  }

  #readJson(parts: OutputPart[]): boolean {
    const rest = this.#json?.push(this.#buffer, parts) ?? null;
    this.#buffer = rest ?? "";
    if (rest === null) return false;
    this.#place = "between";
    return true;
  }
}

/** A text without quotes, as a JSON string. One line break at each end is layout. */
class TextValue {
  #begun = false;

  push(text: string): string {
    if (text === "") return "";
    const inner = this.#begun ? text : text.replace(/^\n/, "");
    const opening = this.#begun ? "" : '"';
    this.#begun = true;
    return opening + JSON.stringify(inner).slice(1, -1);
  }

  end(text: string): string {
    const inner = (this.#begun ? text : text.replace(/^\n/, "")).replace(/\n$/, "");
    return `${this.#begun ? "" : '"'}${JSON.stringify(inner).slice(1, -1)}"`;
  }
}

/** A number, a list, …; a text where it is none of them. */
class LiteralValue {
  readonly #mayBeText: boolean;
  #text = "";

  constructor(mayBeText: boolean) {
    this.#mayBeText = mayBeText;
  }

  push(text: string): string {
    this.#text += text;
    return "";
  }

  end(text: string): string {
    const whole = (this.#text + text).replace(/^\n/, "").replace(/\n$/, "");
    const isQuoted = this.#mayBeText && /^\s*["']/.test(whole);
    return (isQuoted ? null : jsonOfLiteral(whole)) ?? JSON.stringify(whole);
  }
}

/** Behind `<tool_call>`: JSON, or the notation above. */
export class TaggedCalls implements CallReader {
  readonly #json: CallReader;
  readonly #markup: CallReader;
  #chosen: CallReader | null = null;
  #buffer = "";

  constructor(json: CallReader, markup: CallReader) {
    this.#json = json;
    this.#markup = markup;
  }

  get called(): boolean {
    return this.#chosen?.called ?? false;
  }

  push(text: string, parts: OutputPart[]): string | null {
    if (this.#chosen !== null) return this.#chosen.push(text, parts);
    this.#buffer += text;
    const beginning = beginningOf(this.#buffer) ?? "{";
    const isUndecided = FUNCTION.startsWith(beginning) && beginning !== FUNCTION;
    if (isUndecided) return null;
    const isMarkup = beginning.startsWith(FUNCTION);
    const chosen = isMarkup ? this.#markup : this.#json;
    this.#chosen = chosen;
    return chosen.push(isMarkup ? beginning.slice(FUNCTION.length) : this.#buffer, parts);
  }

  finish(parts: OutputPart[]): string {
    if (this.#chosen === null) return this.#buffer;
    const text = this.#chosen.finish(parts);
    if (this.#chosen !== this.#markup || this.called) return text;
    const before = this.#buffer.slice(0, this.#buffer.indexOf(FUNCTION));
    return before + FUNCTION + text;
  }
}
