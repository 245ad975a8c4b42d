import type { CallEmitter } from "./call-emitter.ts";
import type { CallReader } from "./call-reader.ts";
import type { OutputPart } from "./output-part.ts";

/** Calls as JSON: one object with a name and arguments, or a list of them. */
export class JsonCalls implements CallReader {
  readonly #emitter: CallEmitter;
  #place: "before" | "object" | "after" | "failed" = "before";
  #inList = false;
  #called = false;
  /** Text since the last call, which is none of a call so far. */
  #text = "";

  constructor(emitter: CallEmitter) {
    this.#emitter = emitter;
  }

  get called(): boolean {
    return this.#called;
  }

  push(text: string, parts: OutputPart[]): string | null {
    let rest: string = text;
    while (rest !== "") {
      const behind = this.#place === "object" ? this.#object(rest, parts) : this.#between(rest);
      if (behind === null) return null;
      rest = behind.rest;
      if (behind.ended) return rest;
    }
    return null;
  }

  finish(parts: OutputPart[]): string {
    if (this.#place !== "object") return this.#called && this.#place !== "failed" ? "" : this.#text;
    const raw = this.#emitter.finishObject(parts);
    this.#called ||= raw === null;
    return raw === null ? "" : this.#text + raw;
  }

  #object(text: string, parts: OutputPart[]): Behind | null {
    const rest = this.#emitter.push(text, parts);
    if (rest === null) return null;
    const raw = this.#emitter.finishObject(parts);
    if (raw !== null) {
      this.#text += raw;
      this.#place = "failed";
      return { rest, ended: true };
    }
    this.#called = true;
    this.#text = "";
    this.#place = "after";
    return { rest, ended: !this.#inList };
  }

  /** One character outside of objects. A list's closing bracket may be missing. */
  #between(text: string): Behind {
    const char = text.charAt(0);
    const rest = text.slice(1);
    if (/\s/.test(char)) {
      this.#text += char;
      return { rest, ended: false };
    }
    if (this.#place === "before") return this.#begin(char, text);
    if (char === "]") return { rest, ended: true };
    if (char !== ",") return { rest: text, ended: true };
    this.#place = "before";
    this.#text += char;
    return { rest, ended: false };
  }

  #begin(char: string, text: string): Behind {
    if (char === "{") {
      this.#place = "object";
      return { rest: text, ended: false };
    }
    const opens = char === "[" && !this.#inList;
    const closes = char === "]" && this.#inList && this.#called;
    if (opens) {
      this.#inList = true;
      this.#text += char;
    } else if (!closes) {
      this.#place = "failed";
      return { rest: text, ended: true };
    }
    return { rest: text.slice(1), ended: closes };
  }
}

interface Behind {
  readonly rest: string;
  readonly ended: boolean;
}
