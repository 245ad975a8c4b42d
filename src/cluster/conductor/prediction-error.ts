/** About so many predictions count; older ones less and less. */
const KEEP = 1 - 1 / 256;

/** How far predictions were from what came. */
export interface ErrorReport {
  /** Predictions that were compared, since the start. */
  readonly samples: number;
  /** Mean of |predicted - actual| / actual, newer ones more. */
  readonly meanError: number;
  /** Mean of (predicted - actual) / actual: above 0, predictions are too long. */
  readonly bias: number;
}

/** Compares predictions with what came, relative to the latter. */
export class PredictionError {
  #samples = 0;
  #weight = 0;
  #error = 0;
  #bias = 0;

  /** Nothing is counted of what is not above 0. */
  add(predictedMs: number, actualMs: number): void {
    if (!(actualMs > 0) || !Number.isFinite(predictedMs) || !Number.isFinite(actualMs)) return;
    const part = (predictedMs - actualMs) / actualMs;
    this.#samples++;
    this.#weight = this.#weight * KEEP + 1;
    this.#error = this.#error * KEEP + Math.abs(part);
    this.#bias = this.#bias * KEEP + part;
  }

  report(): ErrorReport {
    const { weight, error, bias } = { weight: this.#weight, error: this.#error, bias: this.#bias };
    if (weight === 0) return { samples: 0, meanError: 0, bias: 0 };
    return { samples: this.#samples, meanError: error / weight, bias: bias / weight };
  }
}
