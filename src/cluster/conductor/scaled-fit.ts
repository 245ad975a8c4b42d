import { DecayedFit } from "#cluster/routing";

/** What estimators fit with. */
export type Fit = Pick<DecayedFit, "coefficients" | "samples" | "add">;

/** As many first samples say how far the belief is off. */
const FIRST_SAMPLES = 8;

/**
 * A fit whose belief is of another machine: only the proportions of its terms are believed. Their
 * size is the median of what the first samples say. Left as it is, a belief that is twenty times
 * too small pulls predictions for hundreds of samples.
 */
export class ScaledFit implements Fit {
  readonly #prior: readonly number[];
  readonly #sampleCount: number;
  readonly #first: (readonly [readonly number[], number])[] = [];
  #fit: DecayedFit;

  constructor(prior: readonly number[], sampleCount: number) {
    this.#prior = prior;
    this.#sampleCount = sampleCount;
    this.#fit = new DecayedFit(prior, sampleCount);
  }

  get coefficients(): readonly number[] {
    return this.#fit.coefficients;
  }

  get samples(): number {
    return this.#fit.samples;
  }

  add(x: readonly number[], y: number): void {
    if (this.#first.length >= FIRST_SAMPLES) {
      this.#fit.add(x, y);
      return;
    }
    this.#first.push([[...x], y]);
    const scale = this.#medianRatio();
    this.#fit = new DecayedFit(
      this.#prior.map((value) => value * scale),
      this.#sampleCount,
    );
    for (const [each, ms] of this.#first) this.#fit.add(each, ms);
  }

  #medianRatio(): number {
    const ratios = this.#first
      .map(([x, y]) => y / x.reduce((sum, value, at) => sum + value * (this.#prior[at] ?? 0), 0))
      .sort((a, b) => a - b);
    return ratios[ratios.length >> 1] ?? 1;
  }
}
