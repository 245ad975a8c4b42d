import type { CallReader } from "./call-reader.ts";
import { beginningOf, type OutputPart } from "./output-part.ts";

/** Behind `[TOOL_CALLS]`: a JSON list of calls, or the newer notation with the name in front. */
export class MistralCalls implements CallReader {
  readonly #list: CallReader;
  readonly #named: CallReader;
  #chosen: CallReader | null = null;
  #before = "";

  constructor(list: CallReader, named: CallReader) {
    this.#list = list;
    this.#named = named;
  }

  get called(): boolean {
    return this.#chosen?.called ?? false;
  }

  push(text: string, parts: OutputPart[]): string | null {
    if (this.#chosen !== null) return this.#chosen.push(text, parts);
    this.#before += text;
    const rest = beginningOf(this.#before) ?? this.#before;
    if (rest === "") return null;
    this.#before = this.#before.slice(0, this.#before.length - rest.length);
    this.#chosen = /^[[{\s]/.test(rest) ? this.#list : this.#named;
    return this.#chosen.push(rest, parts);
  }

  finish(parts: OutputPart[]): string {
    const text = this.#chosen?.finish(parts) ?? "";
    return this.called ? text : this.#before + text;
  }
}
