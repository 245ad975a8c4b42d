/** Pools the rows of a text into one vector. Source: Reimers and Gurevych 2019, "Sentence-BERT". */

/**
 * Pooling modes by sentence-transformers' names, in the order in which it joins several.
 * `mean_sqrt_len_tokens` divides the sum by the root of the count; `weightedmean` weights a row by
 * its place, the first by 1.
 */
export const POOLING_MODES = [
  "cls",
  "max",
  "mean",
  "mean_sqrt_len_tokens",
  "weightedmean",
  "lasttoken",
] as const;
export type PoolingMode = (typeof POOLING_MODES)[number];

/** How a text's last hidden states become its vector. */
export interface PoolingSpec {
  /** At least one; the vectors of several are joined. */
  readonly modes: readonly PoolingMode[];
  /** The vector is normalised to length 1. */
  readonly normalize: boolean;
}

/** The default of a model that does not specify its pooling. */
export const meanPooling: PoolingSpec = { modes: ["mean"], normalize: true };

/** Whether the device's own op makes these vectors. */
export function isMeanAlone({ modes }: PoolingSpec): boolean {
  return modes.length === 1 && modes[0] === "mean";
}

/**
 * Pools rows [E] whose positions arrive in order, each once, even when a preemption recomputes
 * them.
 */
export class RowPool {
  readonly #size: number;
  readonly #spec: PoolingSpec;
  /** Rows before this position count in no mean and no maximum. */
  readonly #skipped: number;
  readonly #sum: Float64Array;
  readonly #weighted: Float64Array;
  readonly #max: Float64Array;
  readonly #first: Float64Array;
  readonly #last: Float64Array;
  #rows = 0;
  /** Rows that count, and the sum of their places, the first being 1. */
  #counted = 0;
  #places = 0;

  /**
   * `skipped`: leading rows of a prompt that is not pooled; `cls` is the row behind them, and the
   * first where there is none.
   */
  constructor(size: number, spec: PoolingSpec, skipped = 0) {
    this.#size = size;
    this.#spec = spec;
    this.#skipped = skipped;
    this.#sum = new Float64Array(size);
    this.#weighted = new Float64Array(size);
    this.#max = new Float64Array(size).fill(Number.NEGATIVE_INFINITY);
    this.#first = new Float64Array(size);
    this.#last = new Float64Array(size);
  }

  /** `rows`: [count, E] of positions from `start` on. */
  add(start: number, rows: Float32Array): void {
    const size = this.#size;
    const count = rows.length / size;
    for (let row = Math.max(0, this.#rows - start); row < count; row++) {
      this.#addRow(start + row, rows.subarray(row * size, (row + 1) * size));
    }
    this.#rows = Math.max(this.#rows, start + count);
  }

  /** [modes * E], a new array: of the rows so far, at least one. */
  vector(): Float32Array {
    const vector = new Float64Array(this.#spec.modes.length * this.#size);
    for (const [place, mode] of this.#spec.modes.entries()) {
      vector.set(this.#pooled(mode), place * this.#size);
    }
    if (!this.#spec.normalize) return Float32Array.from(vector);
    const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
    const scale = length > 0 ? 1 / length : 0;
    return Float32Array.from(vector, (value) => value * scale);
  }

  #addRow(position: number, row: Float32Array): void {
    if (position === 0 || position === this.#skipped) this.#first.set(row);
    this.#last.set(row);
    if (position < this.#skipped) return;
    this.#counted += 1;
    this.#places += position + 1;
    const { modes } = this.#spec;
    if (modes.includes("mean") || modes.includes("mean_sqrt_len_tokens")) {
      accumulate(this.#sum, row, 1);
    }
    if (modes.includes("weightedmean")) accumulate(this.#weighted, row, position + 1);
    if (!modes.includes("max")) return;
    row.forEach((value, column) => {
      this.#max[column] = Math.max(this.#max[column] ?? value, value);
    });
  }

  #pooled(mode: PoolingMode): Float64Array {
    // As sentence-transformers: a text whose rows are all skipped has a vector of zeros.
    const rows = Math.max(1, this.#counted);
    switch (mode) {
      case "cls":
        return this.#first;
      case "lasttoken":
        return this.#last;
      case "max":
        return this.#counted > 0 ? this.#max : this.#sum;
      case "mean":
        return this.#sum.map((value) => value / rows);
      case "mean_sqrt_len_tokens":
        return this.#sum.map((value) => value / Math.sqrt(rows));
      case "weightedmean":
        return this.#weighted.map((value) => value / Math.max(1, this.#places));
    }
  }
}

function accumulate(sum: Float64Array, row: Float32Array, weight: number): void {
  for (let column = 0; column < sum.length; column++) {
    sum[column] = (sum[column] ?? 0) + weight * (row[column] ?? 0);
  }
}
