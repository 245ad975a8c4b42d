/** Evidence counts half after this long: a worker that was avoided is tried again. */
const HALF_LIFE_MS = 60_000;
/** With less evidence a worker is taken for one like the others. */
const SAMPLES_MIN = 12;
/** Of a mean's deviation: what may be chance is none. */
const CERTAINTY = 3;
/** One sample says no more than this factor. */
const FACTOR_MAX = 4;

/**
 * How much slower a worker is than others of its kind, from what each prompt took beside what was
 * expected of it. Prompts of a worker that starts, or shares its machine for a while, take long: if
 * that were believed for ever, it would get no more prompts, and nothing would correct it.
 */
export class RelativeSpeed {
  #weight = 0;
  #sum = 0;
  #squares = 0;
  #atMs = 0;
  readonly #keep: number;

  /** About so many samples count. */
  constructor(samples: number) {
    this.#keep = 1 - 1 / samples;
  }

  add(ms: number, expectedMs: number, nowMs: number): void {
    if (!(ms > 0) || !(expectedMs > 0) || !Number.isFinite(ms / expectedMs)) return;
    const most = Math.log(FACTOR_MAX);
    const value = Math.min(Math.max(Math.log(ms / expectedMs), -most), most);
    const keep = this.#agedBy(nowMs) * this.#keep;
    this.#weight = this.#weight * keep + 1;
    this.#sum = this.#sum * keep + value;
    this.#squares = this.#squares * keep + value * value;
    this.#atMs = nowMs;
  }

  /** Whether it is slower or quicker than `others` by more than `factor`, and not by chance. */
  differs(others: RelativeSpeed, factor: number, nowMs: number): boolean {
    const own = this.#told(nowMs);
    const all = others.#told(nowMs);
    if (own.samples < SAMPLES_MIN || all.samples < SAMPLES_MIN) return false;
    const chance = CERTAINTY * Math.sqrt(own.variance / own.samples + all.variance / all.samples);
    return Math.abs(own.mean - all.mean) - chance > Math.log(factor);
  }

  #told(nowMs: number): { samples: number; mean: number; variance: number } {
    if (this.#weight === 0) return { samples: 0, mean: 0, variance: 0 };
    const mean = this.#sum / this.#weight;
    const variance = Math.max(this.#squares / this.#weight - mean * mean, 0);
    return { samples: this.#weight * this.#agedBy(nowMs), mean, variance };
  }

  #agedBy(nowMs: number): number {
    return 0.5 ** (Math.max(nowMs - this.#atMs, 0) / HALF_LIFE_MS);
  }
}
