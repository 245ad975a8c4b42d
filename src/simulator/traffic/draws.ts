/** Random numbers of traffic, in order, from one seed. */
import { type Seed, seedFrom, uniformAt } from "#base";

/** A log-normal amount: its median, and the standard deviation of its logarithm. */
export interface Amount {
  readonly median: number;
  readonly spread: number;
  readonly most: number;
}

/** A stream of draws; each stream of one seed has its own. */
export class Draws {
  readonly #seed: Seed;
  readonly #stream: number;
  #count = 0;

  constructor(seed: number, stream = 0) {
    this.#seed = seedFrom(seed);
    this.#stream = stream;
  }

  /** In [0, 1). */
  uniform(): number {
    return uniformAt(this.#seed, this.#count++, this.#stream);
  }

  /** A whole number from 0 up to `count`. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  chance(probability: number): boolean {
    return this.uniform() < probability;
  }

  /** Time to the next of events that come `perSecond` times a second, in ms. */
  gapMs(perSecond: number): number {
    return (-Math.log(1 - this.uniform()) * 1000) / perSecond;
  }

  /** 1 or more, with this mean: how often something happens that ends by chance. */
  times(mean: number): number {
    if (mean <= 1) return 1;
    return 1 + Math.floor(Math.log(1 - this.uniform()) / Math.log(1 - 1 / mean));
  }

  /** Log-normal, cut off. Source: G. Box, M. Muller 1958. */
  amount({ median, spread, most }: Amount): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const normal = radius * Math.cos(2 * Math.PI * this.uniform());
    return Math.min(most, median * Math.exp(spread * normal));
  }

  /** The same as whole tokens, at least one. */
  tokens(amount: Amount): number {
    return Math.max(1, Math.round(this.amount(amount)));
  }
}
