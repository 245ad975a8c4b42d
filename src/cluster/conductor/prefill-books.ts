/** The line of prompts at one prefill instance, in predicted ms. */

/** A prompt in a line. */
export interface QueuedPrefill {
  readonly expectedMs: number;
}

/** How long an instance worked on a prompt. */
export interface PromptWork {
  readonly ms: number;
  /** It was begun when the one before it was done, or with that. */
  readonly follows: boolean;
}

/**
 * The time until an instance would begin a new prompt: the sum of what is predicted of those in its
 * line, less what the first one has had already. A first one that takes longer than predicted
 * counts as ending now.
 */
export class PrefillBooks {
  readonly #line: QueuedPrefill[] = [];
  #sumMs = 0;
  #headSinceMs = 0;
  #headFollows = false;

  get count(): number {
    return this.#line.length;
  }

  add(prompt: QueuedPrefill, nowMs: number): void {
    if (this.#line.length === 0) {
      this.#headSinceMs = nowMs;
      this.#headFollows = false;
    }
    this.#line.push(prompt);
    this.#sumMs += prompt.expectedMs;
  }

  /** It was computed, or left the line. Null: it was not the first in it, so nothing is known. */
  remove(prompt: QueuedPrefill, nowMs: number): PromptWork | null {
    const at = this.#line.indexOf(prompt);
    if (at < 0) return null;
    this.#line.splice(at, 1);
    this.#sumMs -= prompt.expectedMs;
    if (this.#line.length === 0) this.#sumMs = 0;
    // Where prompts overtake each other, the first one has been worked on since then all the same.
    if (at !== 0) return null;
    const work = { ms: nowMs - this.#headSinceMs, follows: this.#headFollows };
    this.#headSinceMs = nowMs;
    this.#headFollows = true;
    return work;
  }

  queueMs(nowMs: number): number {
    const head = this.#line[0];
    if (head === undefined) return 0;
    const done = Math.min(Math.max(nowMs - this.#headSinceMs, 0), head.expectedMs);
    return Math.max(this.#sumMs - done, 0);
  }
}
