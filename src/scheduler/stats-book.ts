import type { PreemptionMode } from "./plan.ts";
import type { Sequence } from "./sequence.ts";

/** What a scheduler did since its start. */
export interface StatsSinceStart {
  /** Preempted sequences, in every mode. */
  readonly preemptions: number;
  /** Of these, sequences swapped to host memory; the others were computed again. */
  readonly swapPreemptions: number;
  /** Sequences that share another one's blocks instead of computing a prompt. */
  readonly forks: number;
  /** Fetches from disk. */
  readonly loads: number;
  /** Tokens of first admissions, and how many of them came from the cache. */
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  /** The same for sequences that resumed after a preemption. */
  readonly preemptedQueriedTokens: number;
  readonly preemptedHitTokens: number;
}

type Counted = { -readonly [name in keyof StatsSinceStart]: number };

/** Counts what a scheduler does. */
export class StatsBook {
  readonly #stats: Counted = {
    preemptions: 0,
    swapPreemptions: 0,
    forks: 0,
    loads: 0,
    prefixQueriedTokens: 0,
    prefixHitTokens: 0,
    preemptedQueriedTokens: 0,
    preemptedHitTokens: 0,
  };

  sinceStart(): StatsSinceStart {
    return { ...this.#stats };
  }

  preempted(sequences: number, mode: PreemptionMode): void {
    this.#stats.preemptions += sequences;
    if (mode === "swap") this.#stats.swapPreemptions += sequences;
  }

  forked(sequences: number): void {
    this.#stats.forks += sequences;
  }

  loading(): void {
    this.#stats.loads++;
  }

  /** A prompt was looked up and admitted. */
  queried(sequence: Sequence, hitTokens: number): void {
    if (sequence.preemptions === 0) {
      this.#stats.prefixQueriedTokens += sequence.tokens.length;
      this.#stats.prefixHitTokens += hitTokens;
    } else {
      this.#stats.preemptedQueriedTokens += sequence.tokens.length;
      this.#stats.preemptedHitTokens += hitTokens;
    }
  }
}
