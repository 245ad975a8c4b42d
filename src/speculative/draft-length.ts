/** How many tokens to draft for one sequence, by what was confirmed of its earlier drafts. */

/** How much may be drafted of one sequence in one step. */
export interface DraftShape {
  /** Drafted tokens of one continuation, at most. */
  readonly length: number;
  /** Continuations, at most. */
  readonly width: number;
}

const firstLength = 4;
/** Most steps without a draft after drafts of which nothing was confirmed. */
const restMax = 64;

/**
 * A draft that is confirmed as a whole is followed by one of twice its length; others by one token
 * more than was confirmed. After a draft of which nothing was confirmed the sequence rests for a
 * step, twice as many after each further one.
 */
export class DraftLength {
  readonly #most: number;
  #length: number;
  #misses = 0;
  #rest = 0;

  /** `most`: tokens of the longest draft. */
  constructor(most: number) {
    this.#most = most;
    this.#length = Math.min(firstLength, most);
  }

  /** Tokens of the next draft; 0 while the sequence rests. To be called once per step. */
  next(): number {
    if (this.#rest === 0) return this.#length;
    this.#rest--;
    return 0;
  }

  /** Records a verified draft. */
  verified(drafted: number, confirmed: number): void {
    if (confirmed > 0) {
      this.#misses = 0;
      const wanted = confirmed === drafted ? 2 * drafted : confirmed + 1;
      this.#length = Math.min(this.#most, Math.max(wanted, 2));
      return;
    }
    this.#misses++;
    this.#length = Math.min(firstLength, this.#most);
    this.#rest = Math.min(restMax, 2 ** (this.#misses - 1));
  }
}
