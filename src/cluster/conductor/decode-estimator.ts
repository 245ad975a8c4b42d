/** How long a decoding step takes, by its sequences and the tokens of context that they read. */
import { DecayedFit } from "#cluster/routing";
import { leastSquares } from "./least-squares.ts";
import { type ErrorReport, PredictionError } from "./prediction-error.ts";
import { type Fit, ScaledFit } from "./scaled-fit.ts";

/** A step that decoded. */
export interface DecodePoint {
  /** Sequences that got a token. */
  readonly sequences: number;
  /** Tokens of context of all of them. */
  readonly contextTokens: number;
  readonly ms: number;
}

/** ms of a step, of one sequence, of 1,000 tokens of context. */
export type DecodeCoefficients = readonly [number, number, number];

/** Believed of what was never measured: 8 B parameters on one GPU of today. */
const PRIOR: DecodeCoefficients = [8, 0.02, 0.05];
const SAMPLES = 400;
/** Of what is believed: below, a term would never be found again. */
const FLOOR = 0.001;

export class DecodeEstimator {
  readonly #fit: Fit;
  readonly #error = new PredictionError();

  /** As of `PrefillEstimator`. */
  constructor(
    points: readonly DecodePoint[] = [],
    prior: DecodeCoefficients = PRIOR,
    { isUnknown = false } = {},
  ) {
    const valid = points.filter(isUsable);
    const found = leastSquares(
      valid.map(({ sequences, contextTokens }) => [1, sequences, contextTokens / 1e3]),
      valid.map(({ ms }) => ms),
    );
    const start = prior.map((believed, at) => Math.max(found?.[at] ?? believed, believed * FLOOR));
    this.#fit = isUnknown ? new ScaledFit(start, SAMPLES) : new DecayedFit(start, SAMPLES);
  }

  get coefficients(): DecodeCoefficients {
    const [step = 0, sequence = 0, context = 0] = this.#fit.coefficients;
    return [step, sequence, context];
  }

  /** ms of a step; of none where nothing decodes. */
  ms(sequences: number, contextTokens: number): number {
    if (!(sequences > 0)) return 0;
    // Not its own getter's copy: each decision asks once for every instance.
    const [step = 0, sequence = 0, context = 0] = this.#fit.coefficients;
    return step + sequence * sequences + (context * contextTokens) / 1e3;
  }

  /** A step was measured while serving. */
  measured(point: DecodePoint): void {
    this.#error.add(this.ms(point.sequences, point.contextTokens), point.ms);
    this.#add(point);
  }

  /** Measurements that its predictions stand on. */
  get samples(): number {
    return this.#fit.samples;
  }

  error(): ErrorReport {
    return this.#error.report();
  }

  #add(point: DecodePoint): void {
    if (!isUsable(point)) return;
    const { sequences, contextTokens, ms } = point;
    this.#fit.add([1, sequences, contextTokens / 1e3], ms);
  }
}

function isUsable({ sequences, ms }: DecodePoint): boolean {
  return ms > 0 && Number.isFinite(ms) && sequences > 0;
}
