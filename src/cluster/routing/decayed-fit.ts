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
  #coefficients: readonly number[];
  #samples = 0;

  /** `prior`: all above 0. `samples`: about how many count. */
  constructor(prior: readonly number[], samples: number) {
    this.#prior = prior;
    this.#keep = 1 - 1 / samples;
    this.#products = prior.map(() => prior.map(() => 0));
    this.#targets = prior.map(() => 0);
    this.#coefficients = prior;
  }

  get coefficients(): readonly number[] {
    return this.#coefficients;
  }

  get samples(): number {
    return this.#samples;
  }

  predict(x: readonly number[]): number {
    return x.reduce((sum, value, at) => sum + value * (this.#coefficients[at] ?? 0), 0);
  }

  /** A sample of what is above 0. */
  add(x: readonly number[], y: number): void {
    const expected = this.#samples < SETTLED_SAMPLES ? y : this.predict(x);
    this.#samples++;
    // Divided by what came alone, samples that happen to be small would count most. Large ones
    // count less: something else may have delayed them.
    const by = Math.max(y, expected);
    const weight = 1 / (by * by);
    for (const [row, value] of x.entries()) {
      const products = this.#products[row];
      if (products === undefined) continue;
      for (const [column, other] of x.entries()) {
        products[column] = (products[column] ?? 0) * this.#keep + value * other * weight;
      }
      this.#targets[row] = (this.#targets[row] ?? 0) * this.#keep + value * y * weight;
    }
    this.#coefficients = this.#solve();
  }

  /** Coefficients that come out negative are held at 0, and the others fitted again. */
  #solve(): number[] {
    const free = new Set(this.#prior.keys());
    for (;;) {
      const solution = this.#solveFor([...free]);
      const negative = [...free].filter((at) => (solution[at] ?? 0) < 0);
      if (negative.length === 0) return solution;
      for (const at of negative) free.delete(at);
    }
  }

  /** The belief is a sample per coefficient, whose `x[i]` alone explains it. */
  #solveFor(free: readonly number[]): number[] {
    const rows = free.map((row) => {
      const prior = this.#prior[row] ?? 1;
      const belief = BELIEF / (prior * prior);
      const values = free.map(
        (column) => (this.#products[row]?.[column] ?? 0) + (row === column ? belief : 0),
      );
      return [...values, (this.#targets[row] ?? 0) + belief * prior];
    });
    const solved = eliminate(rows);
    const solution = this.#prior.map(() => 0);
    for (const [at, index] of free.entries()) solution[index] = solved[at] ?? 0;
    return solution;
  }
}

/** Until then what is expected is not better than what came. */
const SETTLED_SAMPLES = 8;
/** Of a whole sample: hardly more than what settles the coefficients that no sample has. */
const BELIEF = 0.02;

/** Gauss: `rows` are [k, k + 1] of a symmetric positive system. */
function eliminate(rows: number[][]): number[] {
  const size = rows.length;
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
  return rows.map((row, at) => {
    const by = row[at] ?? 0;
    return by > 0 ? (row[size] ?? 0) / by : 0;
  });
}
