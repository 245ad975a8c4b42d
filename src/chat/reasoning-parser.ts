import { partLength } from "./marked-parser.ts";
import { beginningOf, type OutputParser, type OutputPart } from "./output-part.ts";
import { StepwiseParser } from "./stepwise-parser.ts";
import type { ThinkingMarkTexts } from "./template-format.ts";

/** How a text is split into thinking and answer. */
export interface ReasoningOptions {
  readonly marks: ThinkingMarkTexts;
  /** The prompt, or the format, has opened the thinking. */
  readonly opened: boolean;
  /** Reads the answer. */
  readonly answer: OutputParser;
}

/** White space that is held back at the end of thinking, at most: it is layout before the mark. */
const LAYOUT_MAX = 256;

/**
 * A model's thinking, at the beginning of its output, and its answer behind. Thinking ends at the
 * first end mark; what it contains is text. White space around marks is layout. An output that does
 * not begin with a mark is an answer.
 */
export class ReasoningParser extends StepwiseParser {
  readonly #options: ReasoningOptions;
  #state: "start" | "opening" | "leading" | "thinking" | "behind" | "answer";
  #thoughtUnits = 0;
  #units = 0;

  constructor(options: ReasoningOptions) {
    super();
    this.#options = options;
    this.#state = options.opened ? "opening" : "start";
  }

  /** Whether the text so far is of thinking, or may be. */
  get thinking(): boolean {
    return this.#state !== "answer" && this.#state !== "behind";
  }

  /** Whether thinking has begun. */
  get begun(): boolean {
    return this.#state !== "start" && (this.#state !== "answer" || this.#thoughtUnits > 0);
  }

  /** UTF-16 units of the thinking with its marks; 0 while it has not ended, or without any. */
  get thoughtUnits(): number {
    return this.#thoughtUnits;
  }

  override push(text: string): OutputPart[] {
    this.#units += text.length;
    return super.push(text);
  }

  protected override advance(parts: OutputPart[]): boolean {
    switch (this.#state) {
      case "start":
        return this.#readStart();
      case "opening":
        return this.#readOpening();
      case "leading":
        return this.#skipTo("thinking");
      case "thinking":
        return this.#readThinking(parts);
      case "behind":
        return this.#skipTo("answer");
      default:
        parts.push(...this.#options.answer.push(this.buffer));
        this.buffer = "";
        return false;
    }
  }

  protected override close(parts: OutputPart[]): void {
    const { answer } = this.#options;
    if (this.#state === "start" || this.#state === "answer")
      parts.push(...answer.push(this.buffer));
    else if (this.#state !== "behind") addReasoning(parts, this.buffer.trimEnd());
    if (this.thinking && this.#state !== "start") this.#thoughtUnits = this.#units;
    parts.push(...answer.finish());
  }

  #readStart(): boolean {
    const { start } = this.#options.marks;
    const rest = beginningOf(this.buffer);
    if (rest !== null && start.startsWith(rest) && rest !== start) return false;
    if (rest?.startsWith(start) === true) {
      this.buffer = rest.slice(start.length);
      this.#state = "opening";
    } else {
      this.#state = "answer";
    }
    return true;
  }

  /** Some models repeat the mark that the prompt ends with. */
  #readOpening(): boolean {
    const { start } = this.#options.marks;
    const rest = this.buffer.trimStart();
    this.buffer = rest;
    if (start.startsWith(rest) && rest !== start) return false;
    this.buffer = rest.startsWith(start) ? rest.slice(start.length) : rest;
    this.#state = "leading";
    return true;
  }

  #readThinking(parts: OutputPart[]): boolean {
    const { buffer } = this;
    const { end } = this.#options.marks;
    const at = buffer.indexOf(end);
    if (at >= 0) {
      addReasoning(parts, withoutLayout(buffer.slice(0, at)));
      this.buffer = buffer.slice(at + end.length);
      this.#thoughtUnits = this.#units - this.buffer.length;
      this.#state = "behind";
      return true;
    }
    const sure = withoutLayout(buffer.slice(0, buffer.length - partLength(buffer, [end])));
    addReasoning(parts, sure);
    this.buffer = buffer.slice(sure.length);
    return false;
  }

  /** Skips white space. */
  #skipTo(state: "thinking" | "answer"): boolean {
    this.buffer = this.buffer.trimStart();
    if (this.buffer === "") return false;
    this.#state = state;
    return true;
  }
}

function withoutLayout(text: string): string {
  return text.slice(0, Math.max(text.trimEnd().length, text.length - LAYOUT_MAX));
}

function addReasoning(parts: OutputPart[], text: string): void {
  if (text !== "") parts.push({ kind: "reasoning", text });
}
