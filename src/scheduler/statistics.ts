import type { PreemptionMode } from "./plan.ts";
import type { Sequence } from "./sequence.ts";

/** The counters of a scheduler since its start. */
export interface SchedulerCounts {
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

type Counters = { -readonly [name in keyof SchedulerCounts]: number };

/** Keeps the counters. */
export class SchedulerStatistics {
  readonly #counters: Counters = {
    preemptions: 0,
    swapPreemptions: 0,
    forks: 0,
    loads: 0,
    prefixQueriedTokens: 0,
    prefixHitTokens: 0,
    preemptedQueriedTokens: 0,
    preemptedHitTokens: 0,
  };

  counts(): SchedulerCounts {
    return { ...this.#counters };
  }

  preempted(sequences: number, mode: PreemptionMode): void {
    this.#counters.preemptions += sequences;
    if (mode === "swap") this.#counters.swapPreemptions += sequences;
  }

  forked(sequences: number): void {
    this.#counters.forks += sequences;
  }

  loading(): void {
    this.#counters.loads++;
  }

  /** A prompt was looked up and admitted. */
  queried(sequence: Sequence, hitTokens: number): void {
    if (sequence.preemptions === 0) {
      this.#counters.prefixQueriedTokens += sequence.tokens.length;
      this.#counters.prefixHitTokens += hitTokens;
    } else {
      this.#counters.preemptedQueriedTokens += sequence.tokens.length;
      this.#counters.preemptedHitTokens += hitTokens;
    }
  }
}
