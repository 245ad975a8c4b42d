import type { StepPlan } from "#scheduler";

/** Steps with fewer prompt tokens do not measure the speed of prefill. */
const PREFILL_TOKENS_MIN = 16;
/** Smallest limit of a step's prompt tokens, however long they take: prefill must progress. */
const TOKENS_MIN = 32;
/** Weight of the newest step beside those before. */
const NEWEST_SHARE = 0.3;

/**
 * How many prompt tokens a step may have beside decoding sequences, so that these are not delayed
 * beyond the limit: estimated from the time per token of earlier steps.
 */
export class PrefillPace {
  readonly #msMax: number | null;
  #msPerToken: number | null = null;

  /** `msMax`: most time that prompts may add to a step, in ms; null: no limit. */
  constructor(msMax: number | null) {
    this.#msMax = msMax;
  }

  get tokensMax(): number {
    if (this.#msMax === null || this.#msPerToken === null) return Number.POSITIVE_INFINITY;
    return Math.max(TOKENS_MIN, Math.floor(this.#msMax / this.#msPerToken));
  }

  /** Records how long a step took. */
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
