import type { Clock } from "./clock.ts";

/**
 * A trouble that comes and goes many times, as of a disk that is nearly full: its begin is told
 * once, and its end once, when nothing has failed for a while.
 */
export class LastingTrouble {
  readonly #clock: Clock;
  readonly #quietMs: number;
  /** When it last failed; null: there is no trouble. */
  #failedMs: number | null = null;

  /** `quietMs`: how long nothing may have failed before the trouble is over. */
  constructor(clock: Clock, quietMs: number) {
    this.#clock = clock;
    this.#quietMs = quietMs;
  }

  /** Notes a failure. True: the trouble begins, which is to be told. */
  failed(): boolean {
    const begins = this.#failedMs === null;
    this.#failedMs = this.#clock.nowMs();
    return begins;
  }

  /** Notes a success. True: the trouble is over, which is to be told. */
  succeeded(): boolean {
    if (this.#failedMs === null) return false;
    if (this.#clock.nowMs() - this.#failedMs < this.#quietMs) return false;
    this.#failedMs = null;
    return true;
  }
}
