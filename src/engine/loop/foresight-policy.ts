import { sizeClass } from "#speculative";

/**
 * Steps that are measured before the two are compared. With foresight they are left out at first:
 * it is not known yet what verifying costs, and how much is accepted. Then they are many, unless
 * they are much slower.
 */
const FIRST = { plain: 8, leftOut: 8, least: 8, foresaw: 32, slower: 0.5 };
/** So many steps that take so many times a plain one are enough: no drafts make up for that. */
const HOPELESS = { steps: 6, times: 4 };
/** A mean is that of about so many steps: contexts grow meanwhile. */
const MEAN_STEPS = 32;
/** A step counts for at most so many times what steps took so far: some are disturbed. */
const DISTURBED = 3;
/** Foresight pays where it gives more tokens a ms by this at least: less may be noise. */
const GAIN_MIN = 1.02;
/**
 * The slower of the two is tried again for some steps, which may lose this share of all time. What
 * is known of it weighs no more than so many steps then.
 */
const TRIES = { steps: 12, share: 0.01, every: 64, weight: 8 };

/** A step of decoding sequences alone, some of them under a grammar. */
export interface ForeseenStep {
  readonly sequences: number;
  /** Tokens that it gave. */
  readonly tokens: number;
  /** Whether drafts were made for the sequences under a grammar. */
  readonly foresaw: boolean;
}

/** Tokens and ms of steps of one kind: means of the newest. */
class Speed {
  steps = 0;
  #tokens = 0;
  #ms = 0;

  record(tokens: number, ms: number): void {
    this.steps++;
    const share = 1 / Math.min(this.steps, MEAN_STEPS);
    const usual = this.steps > 2 ? Math.min(ms, DISTURBED * this.#ms) : ms;
    this.#tokens += share * (tokens - this.#tokens);
    this.#ms += share * (usual - this.#ms);
  }

  /** Lets the next steps count as if only so many had been measured. */
  fade(weight: number): void {
    this.steps = Math.min(this.steps, weight);
  }

  get tokens(): number {
    return this.#tokens;
  }

  get ms(): number {
    return this.#ms;
  }

  get perMs(): number {
    return this.#tokens / this.#ms;
  }
}

/** What is known of steps of about one number of sequences. */
class Known {
  readonly foresaw = new Speed();
  readonly plain = new Speed();
  /** First steps with foresight that are still to be left out. */
  leftOut = FIRST.leftOut;
  /** Of these, those that drafts cannot make up for. */
  hopeless = 0;
  isKnown = false;
  /** Since the last try. */
  steps = 0;
  ms = 0;
  /** Steps left of the try that is under way, and whether it is with foresight. */
  tryLeft = 0;
  tried = false;

  /** What is to be measured before the two are compared; null: enough is known. */
  missing(): boolean | null {
    const { foresaw, plain } = this;
    if (this.isKnown) return null;
    if (plain.steps < FIRST.plain) return false;
    if (foresaw.steps < FIRST.least) return true;
    const isSlow = foresaw.perMs < FIRST.slower * plain.perMs;
    if (!isSlow && foresaw.steps < FIRST.foresaw) return true;
    this.isKnown = true;
    return null;
  }

  /** Takes note of a step with foresight that is left out, unless too many take too long. */
  leaveOut(tokens: number, ms: number): void {
    this.leftOut--;
    if (this.plain.steps > 0 && ms >= HOPELESS.times * this.plain.ms) this.hopeless++;
    if (this.hopeless < HOPELESS.steps) return;
    this.leftOut = 0;
    this.foresaw.record(tokens, ms);
    this.isKnown = true;
  }

  get pays(): boolean {
    return this.foresaw.perMs >= GAIN_MIN * this.plain.perMs;
  }

  /** What a try of the slower one is likely to lose. */
  get tryMs(): number {
    const { foresaw, plain } = this;
    const [slower, quicker] = this.pays ? [plain, foresaw] : [foresaw, plain];
    return TRIES.steps * slower.tokens * Math.max(0, 1 / slower.perMs - 1 / quicker.perMs);
  }
}

/**
 * Decides whether anything is drafted for sequences under a grammar: what it allows, and what it
 * forces, takes the host some 50 µs a sequence and more for each node, between steps. So steps with
 * such drafts are compared with steps without, by the tokens a ms that they gave, and the slower
 * way is only tried now and then.
 */
export class ForesightPolicy {
  readonly #known = new Map<number, Known>();
  #before: boolean | null = null;

  /** Takes note of a step. The first one behind a change is left out: it is half of each kind. */
  record({ sequences, tokens, foresaw }: ForeseenStep, ms: number): void {
    const known = this.#knownOf(sequences);
    known.steps++;
    known.ms += ms;
    const isWhole = foresaw === this.#before;
    this.#before = foresaw;
    if (foresaw && known.leftOut > 0) known.leaveOut(tokens, ms);
    else if (isWhole) known[foresaw ? "foresaw" : "plain"].record(tokens, ms);
  }

  /** Whether drafts are made behind the next step. To be called once per step. */
  decide(sequences: number): boolean {
    const known = this.#knownOf(sequences);
    const missing = known.missing();
    if (missing !== null) return missing;
    if (known.tryLeft > 0) {
      known.tryLeft--;
      return known.tried;
    }
    const { pays } = known;
    if (known.steps < TRIES.every || known.tryMs > TRIES.share * known.ms) return pays;
    known.steps = 0;
    known.ms = 0;
    known.tryLeft = TRIES.steps - 1;
    known.tried = !pays;
    known[known.tried ? "foresaw" : "plain"].fade(TRIES.weight);
    return known.tried;
  }

  #knownOf(sequences: number): Known {
    const size = sizeClass(sequences);
    const known = this.#known.get(size) ?? new Known();
    this.#known.set(size, known);
    return known;
  }
}
