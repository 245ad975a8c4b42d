import type { Clock } from "#base";
import type { TrafficOutlook } from "./kv-cost.ts";

/** Means are over about so many of the last requests. */
const REQUESTS = 256;
/** Believed before the first output has ended. */
const OUTPUT_TOKENS = 200;

/** Measures the traffic: how often requests come, and how long their outputs are. */
export class Traffic {
  readonly #clock: Clock;
  #lastMs: number | null = null;
  #gaps = 0;
  #gapMs = 0;
  #outputs = 0;
  #outputTokens = OUTPUT_TOKENS;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  arrived(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#lastMs !== null) {
      this.#gaps = Math.min(this.#gaps + 1, REQUESTS);
      this.#gapMs += (nowMs - this.#lastMs - this.#gapMs) / this.#gaps;
    }
    this.#lastMs = nowMs;
  }

  ended(outputTokens: number): void {
    this.#outputs = Math.min(this.#outputs + 1, REQUESTS);
    this.#outputTokens += (outputTokens - this.#outputTokens) / this.#outputs;
  }

  outlook(workers: number): TrafficOutlook {
    return {
      arrivalsPerWorkerMs: this.#gapMs > 0 ? 1 / this.#gapMs / Math.max(workers, 1) : 0,
      outputTokens: this.#outputTokens,
    };
  }
}
