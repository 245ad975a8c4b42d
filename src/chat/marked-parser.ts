import type { CallReader } from "./call-reader.ts";
import { addContent, beginningOf, type OutputPart } from "./output-part.ts";
import { StepwiseParser } from "./stepwise-parser.ts";

/** A notation of calls that a mark opens anywhere in a text. */
export interface MarkedCalls {
  readonly open: string;
  /** The mark behind the calls, which models may omit; null: there is none. */
  readonly close: string | null;
  createReader(): CallReader;
}

/** Calls that are being read. */
interface OpenCalls {
  readonly notation: MarkedCalls;
  /** The mark, and the layout before it: text, if no call follows. */
  readonly opening: string;
  readonly reader: CallReader;
}

/** White space before a call that is layout, at most; it is held back until more text comes. */
const LAYOUT_MAX = 256;

/** Text with marked calls in it. White space next to calls is layout, not content. */
export class MarkedParser extends StepwiseParser {
  readonly #notations: readonly MarkedCalls[];
  #open: OpenCalls | null = null;
  /** A mark that may come next; null: none. */
  #closing: string | null = null;
  #called = false;

  constructor(notations: readonly MarkedCalls[]) {
    super();
    this.#notations = notations;
  }

  protected override close(parts: OutputPart[]): void {
    if (this.#open !== null) this.#endCalls(parts);
    else if (!this.#called || this.buffer.trim() !== "") addContent(parts, this.buffer);
  }

  protected override advance(parts: OutputPart[]): boolean {
    if (this.#closing !== null) return this.#readClosing(this.#closing);
    return this.#open === null ? this.#readText(parts) : this.#readCalls(parts);
  }

  #readText(parts: OutputPart[]): boolean {
    const { buffer } = this;
    const found = earliest(buffer, this.#notations);
    if (found !== null) {
      const { at, notation } = found;
      const content = withoutLayout(buffer.slice(0, at));
      addContent(parts, content);
      this.buffer = buffer.slice(at + notation.open.length);
      const opening = buffer.slice(content.length, at) + notation.open;
      this.#open = { notation, opening, reader: notation.createReader() };
      return true;
    }
    const sure = withoutLayout(buffer.slice(0, buffer.length - partLength(buffer, this.#opens())));
    addContent(parts, sure);
    this.buffer = buffer.slice(sure.length);
    return false;
  }

  #opens(): readonly string[] {
    return this.#notations.map(({ open }) => open);
  }

  #readCalls(parts: OutputPart[]): boolean {
    const rest = this.#open?.reader.push(this.buffer, parts) ?? null;
    this.buffer = rest ?? "";
    if (rest === null) return false;
    this.#endCalls(parts);
    return true;
  }

  #endCalls(parts: OutputPart[]): void {
    if (this.#open === null) return;
    const { notation, opening, reader } = this.#open;
    const text = reader.finish(parts);
    addContent(parts, reader.called ? text : opening + text);
    this.#open = null;
    this.#closing = reader.called ? notation.close : null;
    this.#called ||= reader.called;
  }

  #readClosing(mark: string): boolean {
    const rest = beginningOf(this.buffer);
    if (rest !== null && mark.startsWith(rest) && rest !== mark) return false;
    if (rest?.startsWith(mark) === true) this.buffer = rest.slice(mark.length);
    this.#closing = null;
    return true;
  }
}

function earliest(
  text: string,
  notations: readonly MarkedCalls[],
): { readonly at: number; readonly notation: MarkedCalls } | null {
  let found: { readonly at: number; readonly notation: MarkedCalls } | null = null;
  for (const notation of notations) {
    const at = text.indexOf(notation.open);
    if (at >= 0 && (found === null || at < found.at)) found = { at, notation };
  }
  return found;
}

function withoutLayout(text: string): string {
  const kept = text.trimEnd().length;
  return text.slice(0, Math.max(kept, text.length - LAYOUT_MAX));
}

/** Length of the longest suffix of `text` that one of the marks begins with. */
export function partLength(text: string, marks: readonly string[]): number {
  let longest = 0;
  for (const mark of marks) {
    let part = Math.min(mark.length - 1, text.length);
    while (part > longest && !mark.startsWith(text.slice(text.length - part))) part -= 1;
    longest = Math.max(longest, part);
  }
  return longest;
}
