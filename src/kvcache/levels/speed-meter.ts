import { assert } from "#base";

/** Weight of older measurements when a new one is recorded: the last 16 make up two thirds. */
const KEPT = 1 - 1 / 16;

/**
 * A speed from measurements: bytes or tokens per millisecond. Amounts and times are smoothed
 * separately, so that a long measurement counts for more than a short one, and many tiny ones do
 * not outweigh it.
 */
export class SpeedMeter {
  #amount = 0;
  #ms = 0;

  /** Null until the first measurement. */
  get perMs(): number | null {
    return this.#ms > 0 ? this.#amount / this.#ms : null;
  }

  /** Records that `amount` took `ms`. Ignored without measurable time, or without an amount. */
  record(amount: number, ms: number): void {
    assert(amount >= 0 && Number.isFinite(amount), "Cannot measure a negative amount");
    if (!(ms > 0) || amount === 0) return;
    this.#amount = this.#amount * KEPT + amount;
    this.#ms = this.#ms * KEPT + ms;
  }

  /** Forgets all measurements. */
  forget(): void {
    this.#amount = 0;
    this.#ms = 0;
  }
}
