/** How much to draft for one sequence, by what was confirmed of its earlier drafts. */

/** How much may be drafted of one sequence in one step. */
export interface DraftShape {
  /** Drafted tokens of one continuation, at most. */
  readonly length: number;
  /** Continuations, at most. */
  readonly width: number;
}

/** Most steps without a draft after drafts of which nothing was confirmed. */
const restMax = 64;

/**
 * Rests of a sequence: after drafts of which nothing was confirmed it goes without for a step,
 * twice as many after each further one.
 */
export class DraftRest {
  readonly #missesFree: number;
  #misses = 0;
  #rest = 0;

  /** `missesFree`: drafts in a row of which nothing may be confirmed before it rests. */
  constructor(missesFree: number) {
    this.#missesFree = missesFree;
  }

  /** Whether the sequence rests. To be called once per step. */
  rests(): boolean {
    if (this.#rest === 0) return false;
    this.#rest--;
    return true;
  }

  /** Records a verified draft. */
  verified(confirmed: number): void {
    this.#misses = confirmed > 0 ? 0 : this.#misses + 1;
    const counted = this.#misses - this.#missesFree;
    this.#rest = counted > 0 ? Math.min(restMax, 2 ** (counted - 1)) : 0;
  }
}

/** Drafts in a row of which nothing was to be verified, and how seldom any is made then. */
const UNUSED = { most: 32, every: 8 };

/**
 * Spares the making of drafts that no step has room or use for: after 32 of them in a row it is one
 * in eight steps that has a draft, until one is used again.
 */
export class UnusedRest {
  #unused = 0;
  #skipped = 0;

  /** Whether only one step in eight drafts. */
  get rests(): boolean {
    return this.#unused >= UNUSED.most;
  }

  /** Whether to draft now. To be called once per step that could have a draft. */
  drafts(): boolean {
    if (!this.rests) return true;
    this.#skipped = (this.#skipped + 1) % UNUSED.every;
    return this.#skipped === 0;
  }

  /** A draft was made. */
  made(): void {
    this.#unused++;
  }

  /** Some of it is to be verified. */
  used(): void {
    this.#unused = 0;
    this.#skipped = 0;
  }
}

const firstLength = 4;

/**
 * A draft that is confirmed as a whole is followed by one of twice its length; others by one token
 * more than was confirmed. After each draft of which nothing was confirmed the sequence rests.
 */
export class DraftLength {
  readonly #longest: number;
  readonly #rest = new DraftRest(0);
  #length: number;

  /** `longest`: tokens of the longest draft. */
  constructor(longest: number) {
    this.#longest = longest;
    this.#length = Math.min(firstLength, longest);
  }

  /** Tokens of the next draft, whether or not the sequence rests. */
  get length(): number {
    return this.#length;
  }

  /** Tokens of the next draft; 0 while the sequence rests. To be called once per step. */
  next(): number {
    return this.#rest.rests() ? 0 : this.#length;
  }

  /** Records a verified draft. */
  verified(drafted: number, confirmed: number): void {
    this.#rest.verified(confirmed);
    this.followed(drafted, confirmed);
  }

  /** Records a draft that no step verified: the sequence does not rest. */
  followed(drafted: number, confirmed: number): void {
    const wanted = confirmed === drafted ? 2 * drafted : confirmed + 1;
    const next = confirmed === 0 ? firstLength : Math.max(wanted, 2);
    this.#length = Math.min(this.#longest, next);
  }
}
