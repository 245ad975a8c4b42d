import type { CallWriter } from "./call-writer.ts";
import { JsonCallReader } from "./json-call-reader.ts";
import type { OutputPart } from "./output-part.ts";

/** Turns consecutive JSON objects into calls; the caller handles the framing around them. */
export class CallEmitter {
  readonly #writer: CallWriter;
  readonly #isCall: (reader: JsonCallReader) => boolean;
  #reader = new JsonCallReader();
  #started = false;

  /** `isCall` returns, at each check, whether the object as read so far is certainly a call. */
  constructor(writer: CallWriter, isCall: (reader: JsonCallReader) => boolean) {
    this.#writer = writer;
    this.#isCall = isCall;
  }

  /** Takes text of the current object; returns the rest after the object's end, otherwise null. */
  push(text: string, parts: OutputPart[]): string | null {
    const taken = this.#reader.push(text);
    this.#emit(parts);
    return this.#reader.done || this.#reader.broken ? text.slice(taken) : null;
  }

  /** Closes the current object and prepares for the next. Null: it was a call; else its text. */
  finishObject(parts: OutputPart[]): string | null {
    const reader = this.#reader;
    const wasCall = this.#started;
    if (wasCall && !reader.hasArguments) this.#writer.add(parts, "{}");
    this.#reader = new JsonCallReader();
    this.#started = false;
    return wasCall ? null : reader.raw;
  }

  #emit(parts: OutputPart[]): void {
    const reader = this.#reader;
    if (!this.#started) {
      if (reader.name === null || !this.#isCall(reader)) return;
      this.#started = true;
      this.#writer.begin(parts, reader.name);
    }
    this.#writer.add(parts, reader.takeArguments());
  }
}

/** The object names a tool of the request, and has arguments: answers may be JSON, too. */
export function namesTool(writer: CallWriter): (reader: JsonCallReader) => boolean {
  return (reader) => reader.hasArguments && writer.context.tools.has(reader.name ?? "");
}

/** Whatever has a name. */
export function hasName(reader: JsonCallReader): boolean {
  return reader.name !== null;
}
