import type { CallContext, OutputPart } from "./output-part.ts";

/** Numbers the calls of one output, and writes their parts. */
export class CallWriter {
  readonly context: CallContext;
  #count = 0;

  constructor(context: CallContext) {
    this.context = context;
  }

  /** The number of calls begun so far. */
  get count(): number {
    return this.#count;
  }

  begin(parts: OutputPart[], name: string): void {
    parts.push({ kind: "call", index: this.#count, id: this.context.newId(), name });
    this.#count += 1;
  }

  /** More of the arguments of the newest call. */
  add(parts: OutputPart[], text: string): void {
    if (text !== "") parts.push({ kind: "arguments", index: this.#count - 1, text });
  }
}
