import type { CallReader } from "./call-reader.ts";
import type { CallWriter } from "./call-writer.ts";
import { LiteralScanner } from "./literal-scanner.ts";
import type { OutputPart } from "./output-part.ts";

/** The JSON object of a call whose name came before: passed on unchanged, up to its end. */
export class JsonArguments {
  readonly #writer: CallWriter;
  readonly #scanner = new LiteralScanner('"');
  #begun = false;

  constructor(writer: CallWriter) {
    this.#writer = writer;
  }

  /** Takes text that begins with `{` at first; returns what is behind the object, or null. */
  push(text: string, parts: OutputPart[]): string | null {
    for (let place = 0; place < text.length; place++) {
      this.#scanner.push(text.charAt(place));
      this.#begun = true;
      if (!this.#scanner.outside) continue;
      this.#writer.add(parts, text.slice(0, place + 1));
      return text.slice(place + 1);
    }
    this.#writer.add(parts, text);
    return null;
  }

  /** Without an object the call has no arguments. */
  finish(parts: OutputPart[]): void {
    if (!this.#begun) this.#writer.add(parts, "{}");
  }
}

/** Longest name that is read, in characters. */
export const NAME_MAX = 128;

const ARGS = "[ARGS]";
const CALL_ID = /^\[CALL_ID\]\s*\w{1,64}\s*$/;

/**
 * Mistral's newer notation behind `[TOOL_CALLS]`: `name[ARGS]{…}`, or `name{…}`, perhaps with
 * `[CALL_ID]…` behind the name.
 */
export class NamedCalls implements CallReader {
  readonly #writer: CallWriter;
  #head = "";
  #arguments: JsonArguments | null = null;

  constructor(writer: CallWriter) {
    this.#writer = writer;
  }

  get called(): boolean {
    return this.#arguments !== null;
  }

  push(text: string, parts: OutputPart[]): string | null {
    if (this.#arguments !== null) return this.#arguments.push(text, parts);
    const at = text.indexOf("{");
    const before = at < 0 ? text : text.slice(0, at);
    // Only as much as a name may be long: the rest is text.
    const taken = before.slice(0, NAME_MAX - this.#head.length);
    this.#head += taken;
    if (taken.length < before.length) return text.slice(taken.length);
    if (at < 0) return this.#head.length < NAME_MAX ? null : "";
    const name = nameIn(this.#head);
    if (name === null) return text.slice(at);
    this.#writer.begin(parts, name);
    this.#arguments = new JsonArguments(this.#writer);
    return this.#arguments.push(text.slice(at), parts);
  }

  finish(parts: OutputPart[]): string {
    if (this.#arguments === null) return this.#head;
    this.#arguments.finish(parts);
    return "";
  }
}

function nameIn(head: string): string | null {
  const text = head.trim();
  const bare = text.endsWith(ARGS) ? text.slice(0, -ARGS.length) : text;
  const [, name = "", id = ""] = /^([\w.-]+)\s*(.*)$/s.exec(bare) ?? [];
  return name !== "" && (id === "" || CALL_ID.test(id)) ? name : null;
}
