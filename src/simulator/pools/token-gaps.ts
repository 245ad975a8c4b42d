import type { Clock } from "#base";

/** Times between one request's tokens. */
export class TokenGaps {
  readonly all: Float64Array;
  readonly #clock: Clock;
  #count = 0;
  #lastMs = -1;

  constructor(clock: Clock, outputTokens: number) {
    this.#clock = clock;
    this.all = new Float64Array(Math.max(outputTokens - 1, 0));
  }

  get started(): boolean {
    return this.#lastMs >= 0;
  }

  /** Its first token came. */
  start(atMs: number): void {
    this.#lastMs = atMs;
  }

  token(): void {
    const nowMs = this.#clock.nowMs();
    this.all[this.#count++] = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }
}
