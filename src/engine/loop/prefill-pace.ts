import type { StepPlan } from "#scheduler";

/** Steps with fewer prompt tokens do not tell how fast prompts are. */
const PREFILL_TOKENS_MIN = 16;
/** A step computes so many prompt tokens however long they take: what waits goes on. */
const TOKENS_MIN = 32;
/** How much the newest step counts beside those before. */
const NEWEST_SHARE = 0.3;

/**
 * How many prompt tokens a step may have beside sequences that decode, so that these wait no longer
 * than they should: by how long a token took in the steps before.
 */
export class PrefillPace {
  readonly #msMax: number | null;
  #msPerToken: number | null = null;

  /** `msMax`: what prompts may add to a step, in ms; null: whatever they take. */
  constructor(msMax: number | null) {
    this.#msMax = msMax;
  }

  get tokensMax(): number {
    if (this.#msMax === null || this.#msPerToken === null) return Number.POSITIVE_INFINITY;
    return Math.max(TOKENS_MIN, Math.floor(this.#msMax / this.#msPerToken));
  }

  /** Takes note of how long a step took. */
  record({ items, tokens }: StepPlan, ms: number): void {
    const prefill = items.reduce((sum, { count }) => sum + (count > 1 ? count : 0), 0);
    if (this.#msMax === null || prefill < PREFILL_TOKENS_MIN || ms <= 0) return;
    const newest = ms / tokens;
    this.#msPerToken =
      this.#msPerToken === null
        ? newest
        : NEWEST_SHARE * newest + (1 - NEWEST_SHARE) * this.#msPerToken;
  }
}
