import type { FetchedPieces } from "#engine/tiers";

/** Counts pieces that came from other engines, and the time in which some were on their way. */
export class FetchMeter {
  readonly #nowMs: () => number;
  #pieces = 0;
  #ms = 0;
  /** Up to when time is counted: fetches at a time take their time together. */
  #countedMs = Number.NEGATIVE_INFINITY;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** A fetch begins; call what is returned when all its pieces came, and else not. */
  begin(pieces: number): () => void {
    const beganMs = this.#nowMs();
    return () => {
      const endMs = this.#nowMs();
      this.#pieces += pieces;
      this.#ms += endMs - Math.max(beganMs, this.#countedMs);
      this.#countedMs = endMs;
    };
  }

  /** Since the start. */
  read(): FetchedPieces {
    return { pieces: this.#pieces, ms: this.#ms };
  }
}
