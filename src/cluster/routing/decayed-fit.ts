/**
 * Linear least squares on a stream: coefficients of `y = sum of a[i] * x[i]`, none below 0. Errors
 * count relative to `y`, older samples less and less. What was believed at first never fades: a
 * coefficient that nothing was said about stays there.
 */
export class DecayedFit {
  readonly #prior: readonly number[];
  readonly #keep: number;
  /** [k, k] sums of x[i] * x[j], and [k] of x[i] * y, each sample divided by its size. */
  readonly #products: number[][];
  readonly #targets: number[];
  /** What is solved: [k, k + 1], kept between samples: one comes with each stretch of tokens. */
  readonly #rows: number[][];
  readonly #free: number[] = [];
  readonly #coefficients: number[];
  #samples = 0;

  /** `prior`: all above 0. `samples`: about how many count. */
  constructor(prior: readonly number[], samples: number) {
    this.#prior = prior;
    this.#keep = 1 - 1 / samples;
    this.#products = prior.map(() => prior.map(() => 0));
    this.#targets = prior.map(() => 0);
    this.#rows = prior.map(() => [...prior.map(() => 0), 0]);
    this.#coefficients = [...prior];
  }

  get coefficients(): readonly number[] {
    return this.#coefficients;
  }

  get samples(): number {
    return this.#samples;
  }

  predict(x: readonly number[]): number {
    let sum = 0;
    for (let at = 0; at < x.length; at++) sum += (x[at] ?? 0) * (this.#coefficients[at] ?? 0);
    return sum;
  }

  /** A sample of what is above 0. */
  add(x: readonly number[], y: number): void {
    const expected = this.#samples < SETTLED_SAMPLES ? y : this.predict(x);
    this.#samples++;
    // Divided by what came alone, samples that happen to be small would count most. Large ones
    // count less: something else may have delayed them.
    const by = Math.max(y, expected);
    const weight = 1 / (by * by);
    for (let row = 0; row < x.length; row++) {
      const products = this.#products[row];
      const value = x[row] ?? 0;
      if (products === undefined) continue;
      for (let column = 0; column < x.length; column++) {
        const kept = (products[column] ?? 0) * this.#keep;
        products[column] = kept + value * (x[column] ?? 0) * weight;
      }
      this.#targets[row] = (this.#targets[row] ?? 0) * this.#keep + value * y * weight;
    }
    this.#solve();
  }

  /** Coefficients that come out negative are held at 0, and the others fitted again. */
  #solve(): void {
    const free = this.#free;
    free.length = 0;
    for (let at = 0; at < this.#prior.length; at++) free.push(at);
    for (;;) {
      this.#fill(free);
      eliminate(this.#rows, free.length);
      let kept = 0;
      for (let at = 0; at < free.length; at++) {
        const index = free[at] ?? 0;
        if (!(solutionOf(this.#rows, at, free.length) < 0)) free[kept++] = index;
      }
      if (kept === free.length) break;
      free.length = kept;
    }
    this.#coefficients.fill(0);
    for (let at = 0; at < free.length; at++) {
      this.#coefficients[free[at] ?? 0] = solutionOf(this.#rows, at, free.length);
    }
  }

  /** The belief is a sample per coefficient, whose `x[i]` alone explains it. */
  #fill(free: readonly number[]): void {
    for (let at = 0; at < free.length; at++) {
      const to = this.#rows[at];
      const row = free[at] ?? 0;
      const products = this.#products[row];
      if (to === undefined || products === undefined) continue;
      const prior = this.#prior[row] ?? 1;
      const belief = BELIEF / (prior * prior);
      for (let other = 0; other < free.length; other++) {
        to[other] = (products[free[other] ?? 0] ?? 0) + (other === at ? belief : 0);
      }
      to[free.length] = (this.#targets[row] ?? 0) + belief * prior;
    }
  }
}

/** Until then what is expected is not better than what came. */
const SETTLED_SAMPLES = 8;
/** Of a whole sample: hardly more than what settles the coefficients that no sample has. */
const BELIEF = 0.02;

/** Gauss: the first `size` of `rows` are [size, size + 1] of a symmetric positive system. */
function eliminate(rows: readonly number[][], size: number): void {
  for (let pivot = 0; pivot < size; pivot++) {
    const from = rows[pivot];
    const by = from?.[pivot] ?? 0;
    if (from === undefined || !(by > 0)) continue;
    for (let row = 0; row < size; row++) {
      const to = rows[row];
      if (row === pivot || to === undefined) continue;
      const factor = (to[pivot] ?? 0) / by;
      for (let column = pivot; column <= size; column++) {
        to[column] = (to[column] ?? 0) - factor * (from[column] ?? 0);
      }
    }
  }
}

/** Of an eliminated system. */
function solutionOf(rows: readonly number[][], at: number, size: number): number {
  const row = rows[at];
  const by = row?.[at] ?? 0;
  return by > 0 ? (row?.[size] ?? 0) / by : 0;
}
