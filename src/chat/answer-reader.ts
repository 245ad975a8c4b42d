import type { OutputParser, OutputPart } from "./output-part.ts";
import { ReasoningParser } from "./reasoning-parser.ts";
import type { ThinkingMarkTexts } from "./template-format.ts";

/** How the output of one sequence is read. */
export interface AnswerOptions {
  /** Reads the answer: text with calls in it. */
  readonly answer: OutputParser;
  /** Null: the model's thinking is not told from its answer. */
  readonly reasoning: {
    readonly marks: ThinkingMarkTexts;
    readonly opened: boolean;
    /** The token of the end mark; null: it is spelled by several. */
    readonly endTokenId: number | null;
    /** The text of one token, as bytes. */
    tokenBytes(id: number): Uint8Array;
  } | null;
}

/** Text and tokens of one sequence as they arrive: its parts, and how many tokens were thoughts. */
export class AnswerReader {
  readonly #parser: OutputParser;
  readonly #thoughts: ReasoningParser | null;
  readonly #options: AnswerOptions;
  /** Tokens that may be thoughts: all so far, while the model may be thinking. */
  #open: number[] = [];
  #reasoningTokens = 0;

  constructor(options: AnswerOptions) {
    const { answer, reasoning } = options;
    this.#options = options;
    this.#thoughts = reasoning === null ? null : new ReasoningParser({ ...reasoning, answer });
    this.#parser = this.#thoughts ?? answer;
  }

  /** Thinking tokens so far, the marks included. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** `ended`: nothing follows. */
  push(text: string, tokenIds: readonly number[], ended: boolean): OutputPart[] {
    const counts = this.#thoughts?.thinking === true;
    const parts = this.#parser.push(text);
    if (ended) parts.push(...this.#parser.finish());
    if (counts) this.#count(tokenIds, ended);
    return parts;
  }

  #count(tokenIds: readonly number[], ended: boolean): void {
    const thoughts = this.#thoughts;
    if (thoughts === null) return;
    for (const id of tokenIds) this.#open.push(id);
    const isOver = ended || !thoughts.thinking;
    if (isOver && thoughts.thoughtUnits === 0) this.#reasoningTokens = 0;
    else if (isOver && thoughts.thinking) this.#reasoningTokens = this.#open.length;
    else if (isOver) this.#reasoningTokens = this.#thoughtTokens(thoughts.thoughtUnits);
    else if (thoughts.begun) this.#reasoningTokens = this.#open.length;
    if (isOver) this.#open = [];
  }

  /** How many of the open tokens the thinking is of, with its marks. */
  #thoughtTokens(units: number): number {
    const { reasoning } = this.#options;
    if (reasoning === null) return 0;
    const end = reasoning.endTokenId === null ? -1 : this.#open.indexOf(reasoning.endTokenId);
    if (end >= 0) return end + 1;
    const decoder = new TextDecoder();
    let shown = 0;
    let count = 0;
    for (const id of this.#open) {
      if (shown >= units) break;
      shown += decoder.decode(reasoning.tokenBytes(id), { stream: true }).length;
      count += 1;
    }
    return count;
  }
}
