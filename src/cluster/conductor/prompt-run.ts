import type { PromptWork } from "./prefill-books.ts";

/** A prompt that was computed, without its time. */
export interface ComputedPrompt {
  readonly promptTokens: number;
  readonly prefixTokens: number;
}

/** Prompts one behind the other, and the time of all. */
export interface MeasuredRun {
  readonly prompts: readonly ComputedPrompt[];
  readonly ms: number;
}

/** First tokens that come within this of each other were computed in one step. */
const TOGETHER_MS = 1;
/** Prompts that are measured together, where a line never ends. */
const TOGETHER_MAX = 8;

/**
 * Puts prompts together that an instance may have computed in the same steps: a prompt that follows
 * another has begun in that one's last step, and alone would seem to take a part of its time.
 */
export class PromptRun {
  #prompts: ComputedPrompt[] = [];
  #ms = 0;

  /** Adds one; returns the run before it, where that is over. */
  add(prompt: ComputedPrompt, { ms, follows }: PromptWork): MeasuredRun | null {
    const isTogether = ms < TOGETHER_MS || (follows && this.#prompts.length < TOGETHER_MAX);
    if (this.#prompts.length > 0 && isTogether && this.#prompts.length < 2 * TOGETHER_MAX) {
      this.#prompts.push(prompt);
      this.#ms += ms;
      return null;
    }
    const before = { prompts: this.#prompts, ms: this.#ms };
    this.#prompts = [prompt];
    this.#ms = ms;
    return before.prompts.length === 0 ? null : before;
  }
}
