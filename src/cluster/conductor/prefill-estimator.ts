/**
 * How long a prompt takes to be computed: a polynomial of its length and of its prefix that is
 * there already. Source: R. Qin et al. 2025, "Mooncake", section 4.1, which fits it offline and
 * publishes neither its terms nor its coefficients. Ours: a time per prompt, one per computed
 * token, and one per pair of a computed token with a token before it.
 */
import { DecayedFit } from "#cluster/routing";
import { leastSquares } from "./least-squares.ts";
import { type ErrorReport, PredictionError } from "./prediction-error.ts";
import { type Fit, ScaledFit } from "./scaled-fit.ts";

/** A prompt that was computed. */
export interface PrefillPoint {
  readonly promptTokens: number;
  /** Leading tokens that were there. */
  readonly prefixTokens: number;
  readonly ms: number;
}

/** ms of one prompt, of 1,000 computed tokens, of a million of `prompt² - prefix²`. */
export type PrefillCoefficients = readonly [number, number, number];

/** Believed of what was never measured: 8 B parameters on one GPU of today. */
const PRIOR: PrefillCoefficients = [5, 50, 0.5];
/** About so many samples count. */
const SAMPLES = 400;
/** Of what is believed: below, a term would never be found again. */
const FLOOR = 0.001;

export class PrefillEstimator {
  readonly #fit: Fit;
  readonly #error = new PredictionError();

  /**
   * `points`: measured before, by which it is fitted at the start. `isUnknown`: of `prior` the
   * proportions alone are believed.
   */
  constructor(
    points: readonly PrefillPoint[] = [],
    prior: PrefillCoefficients = PRIOR,
    { isUnknown = false } = {},
  ) {
    const valid = points.filter(isUsable);
    const found = leastSquares(
      valid.map(({ promptTokens, prefixTokens }) => [1, ...termsOf(promptTokens, prefixTokens)]),
      valid.map(({ ms }) => ms),
    );
    const start = prior.map((believed, at) => Math.max(found?.[at] ?? believed, believed * FLOOR));
    this.#fit = isUnknown ? new ScaledFit(start, SAMPLES) : new DecayedFit(start, SAMPLES);
  }

  get coefficients(): PrefillCoefficients {
    const [prompt = 0, tokens = 0, pairs = 0] = this.#fit.coefficients;
    return [prompt, tokens, pairs];
  }

  /** ms to compute a prompt of which `prefixTokens` are there. */
  ms(promptTokens: number, prefixTokens: number): number {
    const [prompt, tokens, pairs] = this.coefficients;
    return prefillMs([prompt, tokens, pairs], promptTokens, prefixTokens);
  }

  /** A prompt was computed while serving, alone on its worker. */
  measured(point: PrefillPoint): void {
    this.#error.add(this.ms(point.promptTokens, point.prefixTokens), point.ms);
    this.#add(point);
  }

  /** Prompts were computed one behind the other, or together, in `ms`. */
  measuredRun(prompts: readonly Omit<PrefillPoint, "ms">[], ms: number): void {
    const sums = [prompts.length, 0, 0];
    let predictedMs = 0;
    for (const { promptTokens, prefixTokens } of prompts) {
      const prefix = Math.min(Math.max(prefixTokens, 0), promptTokens);
      const [thousands, millions] = termsOf(promptTokens, prefix);
      sums[1] = (sums[1] ?? 0) + thousands;
      sums[2] = (sums[2] ?? 0) + millions;
      predictedMs += this.ms(promptTokens, prefix);
    }
    if (!(ms > 0) || !Number.isFinite(ms) || prompts.length === 0) return;
    this.#error.add(predictedMs, ms);
    this.#fit.add(sums, ms);
  }

  /** Measurements that its predictions stand on. */
  get samples(): number {
    return this.#fit.samples;
  }

  error(): ErrorReport {
    return this.#error.report();
  }

  #add(point: PrefillPoint): void {
    if (!isUsable(point)) return;
    const { promptTokens, prefixTokens, ms } = point;
    const prefix = Math.min(Math.max(prefixTokens, 0), promptTokens);
    this.#fit.add([1, ...termsOf(promptTokens, prefix)], ms);
  }
}

function isUsable({ promptTokens, ms }: PrefillPoint): boolean {
  return ms > 0 && Number.isFinite(ms) && promptTokens > 0;
}

/** The polynomial itself, for loops over many instances. */
export function prefillMs(
  [prompt, tokens, pairs]: PrefillCoefficients,
  promptTokens: number,
  prefixTokens: number,
): number {
  const [thousands, millions] = termsOf(promptTokens, Math.min(prefixTokens, promptTokens));
  return prompt + tokens * thousands + pairs * millions;
}

function termsOf(promptTokens: number, prefixTokens: number): [number, number] {
  return [
    (promptTokens - prefixTokens) / 1e3,
    (promptTokens * promptTokens - prefixTokens * prefixTokens) / 1e6,
  ];
}
