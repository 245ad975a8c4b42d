import type { Clock } from "#base";
import type { SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";

/** Longest that a step waits for masks of slow grammars, in ms, but for the one under way then. */
const WAIT_MS_MAX = 25;

/**
 * Sequences whose grammar is slow. Their masks are made between steps, for as long as a step may
 * wait; whose mask is not made by then is held, and computes nothing in that step. The others'
 * masks are made inside of the step, while the device computes.
 */
export class SlowMasks {
  readonly #clock: Clock;
  /** Those that lack a mask, whoever has waited longest first. */
  readonly #lacking = new Map<Sequence, SequenceSampling>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Nobody is held. */
  get idle(): boolean {
    return this.#lacking.size === 0;
  }

  /** A sequence drew a token, and goes on. */
  note(sequence: Sequence, sampling: SequenceSampling): void {
    if (!sampling.slow) return;
    sequence.held = true;
    this.#lacking.set(sequence, sampling);
  }

  /** A sequence ended. */
  forget(sequence: Sequence): void {
    this.#lacking.delete(sequence);
  }

  /** Makes masks, one at least. `onFailure` hears what a sequence's grammar threw. */
  async prepare(onFailure: (sequence: Sequence, error: unknown) => void): Promise<void> {
    if (this.idle) return;
    const startMs = this.#clock.nowMs();
    for (const [sequence, sampling] of [...this.#lacking]) {
      // It may have ended with a sibling that failed.
      if (!this.#lacking.delete(sequence)) continue;
      sequence.held = false;
      try {
        await sampling.prepare();
      } catch (error) {
        onFailure(sequence, error);
      }
      if (this.#clock.nowMs() - startMs >= WAIT_MS_MAX) return;
    }
  }
}
