import { assert } from "#base";

/** How much an older measurement counts when a new one comes: the last 16 make up two thirds. */
const KEPT = 1 - 1 / 16;

/**
 * How fast something goes, from what was measured: bytes or tokens per millisecond. Amounts and
 * times are smoothed apart, so that a long measurement counts for more than a short one, and many
 * tiny ones do not drown it.
 */
export class SpeedMeter {
  #amount = 0;
  #ms = 0;

  /** Null until something was measured. */
  get perMs(): number | null {
    return this.#ms > 0 ? this.#amount / this.#ms : null;
  }

  /** `amount` took `ms`. What took no measurable time says nothing and is left out. */
  record(amount: number, ms: number): void {
    assert(amount >= 0 && Number.isFinite(amount), "Cannot measure a negative amount");
    if (!(ms > 0) || amount === 0) return;
    this.#amount = this.#amount * KEPT + amount;
    this.#ms = this.#ms * KEPT + ms;
  }

  /** As if nothing had been measured. */
  forget(): void {
    this.#amount = 0;
    this.#ms = 0;
  }
}
