import type { WorkerSpeeds } from "#cluster/protocol";
import { DecayedFit } from "./decayed-fit.ts";
import type { DecodeLoad } from "./reservation.ts";

/**
 * Believed of a worker that nothing is known of: a model of 8 B parameters on one GPU of today.
 * What matters is their proportion, until the first requests have been served.
 */
const PRIOR = {
  prefillMsPerToken: 0.05,
  requestMs: 5,
  stepMs: 8,
  stepMsPerRequest: 0.02,
  stepMsPerToken: 0.00005,
  loadMsPerToken: [0.005, 0.05],
} as const;

/** About so many samples count. */
const SAMPLES = 200;
/** A sample that is further than this factor from what was expected counts as just that far. */
const OUTLIER_FACTOR = 4;

/** One worker's speeds, from the times of its requests. */
export class MeasuredSpeeds implements WorkerSpeeds {
  /** ms of `[1, uncached tokens]`. */
  readonly #prefill = new DecayedFit({
    prior: [PRIOR.requestMs, PRIOR.prefillMsPerToken],
    priorScales: [0.5, 500],
    samples: SAMPLES,
  });
  /** ms of `[1, requests, tokens of context]`. */
  readonly #decode = new DecayedFit({
    prior: [PRIOR.stepMs, PRIOR.stepMsPerRequest, PRIOR.stepMsPerToken],
    priorScales: [0.5, 2, 4000],
    samples: SAMPLES,
  });
  #told: WorkerSpeeds | null = null;
  #loadMsPerToken: readonly [number, number] = PRIOR.loadMsPerToken;

  get prefillMsPerToken(): number {
    return this.#told?.prefillMsPerToken ?? this.measuredPrefillMsPerToken;
  }

  get loadMsPerToken(): readonly [number, number] {
    return this.#told?.loadMsPerToken ?? this.#loadMsPerToken;
  }

  readonly decodeMs = (requests: number, tokens: number): number =>
    this.#told === null
      ? this.#decode.predict([1, requests, tokens])
      : this.#told.decodeMs(requests, tokens);

  /** As measured from outside, whatever the worker says. */
  get measuredPrefillMsPerToken(): number {
    return Math.max(this.#prefill.coefficients[1] ?? 0, PREFILL_MS_MIN);
  }

  /** Number of prompts that were measured. */
  get prefillSamples(): number {
    return this.#prefill.samples;
  }

  /** The worker's own measurement goes before what is seen from outside; null: none any more. */
  told(speeds: WorkerSpeeds | null): void {
    this.#told = speeds;
  }

  prefilled(tokens: number, ms: number): void {
    if (!Number.isFinite(ms) || ms < 0 || !(tokens > 0)) return;
    add(this.#prefill, [1, tokens], ms);
  }

  decoded(ms: number, tokens: number, load: DecodeLoad): void {
    if (!load.undisturbed || !Number.isFinite(ms) || !(tokens > 0) || ms < 0) return;
    add(this.#decode, [1, load.requests, load.heldBlocks * load.blockTokens], ms / tokens);
  }
}

/** Nothing is computed for nothing: costs stay ordered by tokens. */
const PREFILL_MS_MIN = 1e-5;
/** The first samples say most: the belief may be far off. */
const TRUSTED_SAMPLES = 8;

/** Fits a sample; a far one less. */
function add(fit: DecayedFit, x: readonly number[], ms: number): void {
  const expected = fit.predict(x);
  const trusted = fit.samples >= TRUSTED_SAMPLES && expected > 0;
  const bounded = trusted
    ? Math.min(Math.max(ms, expected / OUTLIER_FACTOR), expected * OUTLIER_FACTOR)
    : ms;
  fit.add(x, bounded);
}
