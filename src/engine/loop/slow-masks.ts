import type { Clock } from "#base";
import type { SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";

/** Longest that a step waits for masks of slow grammars, in ms, but for the one under way then. */
const WAIT_MS_MAX = 25;

/**
 * Sequences whose grammar is slow. Their masks are made between steps, for as long as a step may
 * wait; a sequence whose mask is not made by then is held, and computes nothing in that step. Masks
 * of other grammars are made inside the step, while the device computes.
 */
export class SlowMasks {
  readonly #clock: Clock;
  /** Sequences that lack a mask, the longest waiting first. */
  readonly #lacking = new Map<Sequence, SequenceSampling>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** No sequence is held. */
  get idle(): boolean {
    return this.#lacking.size === 0;
  }

  /** Records that a sequence sampled a token, and continues. */
  note(sequence: Sequence, sampling: SequenceSampling): void {
    if (!sampling.slow) return;
    sequence.held = true;
    this.#lacking.set(sequence, sampling);
  }

  /** Drops a sequence that ended. */
  forget(sequence: Sequence): void {
    this.#lacking.delete(sequence);
  }

  /** Makes masks, one at least. `onFailure` receives the error of a sequence's grammar. */
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
