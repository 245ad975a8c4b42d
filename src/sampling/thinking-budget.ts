/** Marks of a reasoning model's thinking, as token sequences (`<think>`, `</think>`). */
export interface ThinkingMarks {
  readonly startTokenIds: readonly number[];
  readonly endTokenIds: readonly number[];
}

/** The thinking in a prompt: templates may open it. */
export interface PromptThoughts {
  readonly marks: ThinkingMarks;
  /** Thinking tokens at the end of the prompt; null: the prompt does not end in thinking. */
  readonly opened: number | null;
}

/** A state of a `ThinkingBudget`. */
export interface ThinkingState {
  readonly thinking: boolean;
  readonly used: number;
  readonly forced: number;
  readonly ended: boolean;
}

/** Computed once for all sequences of the prompt. */
export function promptThoughts(marks: ThinkingMarks, prompt: ArrayLike<number>): PromptThoughts {
  const opened = lastIndexOfMark(prompt, marks.startTokenIds);
  const closed = lastIndexOfMark(prompt, marks.endTokenIds);
  const thinks = opened > closed;
  return { marks, opened: thinks ? prompt.length - opened - marks.startTokenIds.length : null };
}

function endsWith(tokens: ArrayLike<number>, mark: readonly number[]): boolean {
  const start = tokens.length - mark.length;
  return mark.length > 0 && start >= 0 && mark.every((token, i) => tokens[start + i] === token);
}

/**
 * Ends a model's thinking when it used up its tokens: the end mark is then forced, token by token.
 * Whether the model is thinking follows from the tokens alone, so it survives preemption.
 */
export class ThinkingBudget {
  readonly #marks: ThinkingMarks;
  readonly #budget: number;
  #thinking: boolean;
  /** Tokens since the start mark. */
  #used: number;
  /** Tokens of the end mark that were forced already. */
  #forced = 0;
  /** Thinking has ended. */
  #ended = false;

  constructor(budget: number, { marks, opened }: PromptThoughts) {
    this.#marks = marks;
    this.#budget = budget;
    this.#thinking = opened !== null;
    this.#used = opened ?? 0;
  }

  /** Whether the next token is a thinking token, or one of the mark that ends thinking. */
  get thinking(): boolean {
    return this.#thinking;
  }

  /**
   * The token that opens the first thinking, where a single token does so and thinking may follow.
   */
  get opener(): number | null {
    const [first] = this.#marks.startTokenIds;
    const opensAlone = this.#marks.startTokenIds.length === 1 && this.#budget > 0;
    return opensAlone && !this.#ended ? (first ?? null) : null;
  }

  /** The token that must come next, or null. */
  forced(): number | null {
    if (!this.#thinking || this.#used < this.#budget) return null;
    return this.#marks.endTokenIds[this.#forced] ?? null;
  }

  /** Its state, for `restore`. */
  save(): ThinkingState {
    return {
      thinking: this.#thinking,
      used: this.#used,
      forced: this.#forced,
      ended: this.#ended,
    };
  }

  restore({ thinking, used, forced, ended }: ThinkingState): void {
    this.#thinking = thinking;
    this.#used = used;
    this.#forced = forced;
    this.#ended = ended;
  }

  /** Records the newest of `generated`. */
  accept(generated: readonly number[]): void {
    const forced = this.forced();
    if (forced !== null && generated.at(-1) === forced) this.#forced++;
    if (this.#thinking) this.#used++;
    if (endsWith(generated, this.#marks.endTokenIds)) {
      this.#thinking = false;
      this.#ended = true;
      this.#forced = 0;
    } else if (endsWith(generated, this.#marks.startTokenIds)) {
      this.#thinking = true;
      this.#used = 0;
    }
  }
}

function lastIndexOfMark(tokens: ArrayLike<number>, mark: readonly number[]): number {
  for (let start = tokens.length - mark.length; start >= 0 && mark.length > 0; start--) {
    if (mark.every((token, i) => tokens[start + i] === token)) return start;
  }
  return -1;
}
