import { JsonCallReader } from "./json-call-reader.ts";
import type { OutputPart, ToolCallContext } from "./tool-call-parser.ts";

/** Turns consecutive JSON objects into calls; the caller handles the framing around them. */
export class CallEmitter {
  readonly #context: ToolCallContext;
  readonly #isCall: (reader: JsonCallReader) => boolean;
  #reader = new JsonCallReader();
  #started = false;
  #count = 0;

  /** `isCall` returns, at each check, whether the object as read so far is certainly a call. */
  constructor(context: ToolCallContext, isCall: (reader: JsonCallReader) => boolean) {
    this.#context = context;
    this.#isCall = isCall;
  }

  /** The number of calls begun so far. */
  get count(): number {
    return this.#count;
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
    if (wasCall && !reader.hasArguments) {
      parts.push({ kind: "arguments", index: this.#count - 1, text: "{}" });
    }
    this.#reader = new JsonCallReader();
    this.#started = false;
    return wasCall ? null : reader.raw;
  }

  #emit(parts: OutputPart[]): void {
    const reader = this.#reader;
    if (!this.#started) {
      if (reader.name === null || !this.#isCall(reader)) return;
      this.#started = true;
      parts.push({
        kind: "call",
        index: this.#count,
        id: this.#context.newId(),
        name: reader.name,
      });
      this.#count += 1;
    }
    const text = reader.takeArguments();
    if (text !== "") parts.push({ kind: "arguments", index: this.#count - 1, text });
  }
}
