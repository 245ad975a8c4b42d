import type { Clock } from "#base";

/** Transfers in one direction since the start. */
export interface TrafficStats {
  /** Transfers that succeeded. */
  readonly count: number;
  readonly bytes: number;
  /** Time during which at least one was under way. */
  readonly ms: number;
  readonly failures: number;
}

/**
 * Counts transfers that overlap. The time of several at once is counted once, so that bytes over
 * milliseconds is the total throughput, not that of one transfer.
 */
export class Traffic {
  readonly #clock: Clock;
  readonly #onMeasured: (bytes: number, ms: number) => void;
  #underWay = 0;
  #since = 0;
  #count = 0;
  #bytes = 0;
  #ms = 0;
  #failures = 0;

  /** `onMeasured` receives each transfer that succeeded, and the time since the last one. */
  constructor(clock: Clock, onMeasured: (bytes: number, ms: number) => void = () => {}) {
    this.#clock = clock;
    this.#onMeasured = onMeasured;
  }

  stats(): TrafficStats {
    return { count: this.#count, bytes: this.#bytes, ms: this.#ms, failures: this.#failures };
  }

  /** Measures `transfer` of `bytes`; it returns whether it succeeded, and must not reject. */
  async measure(bytes: number, transfer: () => Promise<boolean>): Promise<boolean> {
    if (this.#underWay++ === 0) this.#since = this.#clock.nowMs();
    const ok = await transfer();
    this.#underWay--;
    const now = this.#clock.nowMs();
    const ms = now - this.#since;
    this.#since = now;
    this.#ms += ms;
    if (!ok) {
      this.#failures++;
      return false;
    }
    this.#count++;
    this.#bytes += bytes;
    this.#onMeasured(bytes, ms);
    return true;
  }
}
