/** Marks of a reasoning model's thoughts, as token sequences (`<think>`, `</think>`). */
export interface ThinkingMarks {
  readonly startTokenIds: readonly number[];
  readonly endTokenIds: readonly number[];
}

function endsWith(tokens: readonly number[], mark: readonly number[]): boolean {
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
  #thinking = false;
  /** Tokens since the start mark. */
  #used = 0;
  /** Tokens of the end mark that were forced already. */
  #forced = 0;

  /** `prompt` may have opened the thoughts (templates do). */
  constructor(budget: number, marks: ThinkingMarks, prompt: readonly number[]) {
    this.#marks = marks;
    this.#budget = budget;
    const opened = lastIndexOfMark(prompt, marks.startTokenIds);
    const closed = lastIndexOfMark(prompt, marks.endTokenIds);
    if (opened > closed) {
      this.#thinking = true;
      this.#used = prompt.length - opened - marks.startTokenIds.length;
    }
  }

  /** The token that must come next, or null. */
  forced(): number | null {
    if (!this.#thinking || this.#used < this.#budget) return null;
    return this.#marks.endTokenIds[this.#forced] ?? null;
  }

  /** Takes note of the newest of `generated`. */
  accept(generated: readonly number[]): void {
    const forced = this.forced();
    if (forced !== null && generated.at(-1) === forced) this.#forced++;
    if (this.#thinking) this.#used++;
    if (endsWith(generated, this.#marks.endTokenIds)) {
      this.#thinking = false;
      this.#forced = 0;
    } else if (endsWith(generated, this.#marks.startTokenIds)) {
      this.#thinking = true;
      this.#used = 0;
    }
  }
}

function lastIndexOfMark(tokens: readonly number[], mark: readonly number[]): number {
  for (let start = tokens.length - mark.length; start >= 0 && mark.length > 0; start--) {
    if (mark.every((token, i) => tokens[start + i] === token)) return start;
  }
  return -1;
}
