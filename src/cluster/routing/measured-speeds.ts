import type { WorkerSpeeds } from "#cluster/protocol";
import { DecayedFit } from "./decayed-fit.ts";
import type { DecodeLoad } from "./reservation.ts";

/**
 * Believed of a worker that nothing is known of: a model of 8 B parameters on one GPU of today.
 * What matters is their proportion, until the first requests have been served.
 */
const PRIOR = {
  requestMs: 5,
  prefillMsPerToken: 0.05,
  prefillMsPerPair: 1e-6,
  stepMs: 8,
  stepMsPerRequest: 0.02,
  stepMsPerToken: 0.00005,
  loadMsPerToken: [0.005, 0.05],
} as const;

/** About so many samples count. */
const SAMPLES = 200;
/** A sample that is further than this factor from what was expected counts as just that far. */
const OUTLIER_FACTOR = 4;
/** The first samples say most: the belief may be far off. */
const TRUSTED_SAMPLES = 8;
/** Nothing is computed for nothing: costs stay ordered by tokens. */
const PREFILL_MS_MIN = 1e-5;

/** One worker's speeds, from the times of its requests. */
export class MeasuredSpeeds implements WorkerSpeeds {
  /** ms of `[prompts, uncached tokens, pairs]`. */
  readonly #prefill = new DecayedFit(
    [PRIOR.requestMs, PRIOR.prefillMsPerToken, PRIOR.prefillMsPerPair],
    SAMPLES,
  );
  /** ms of `[1, requests, tokens of context]`. */
  readonly #decode = new DecayedFit(
    [PRIOR.stepMs, PRIOR.stepMsPerRequest, PRIOR.stepMsPerToken],
    SAMPLES,
  );
  #told: WorkerSpeeds | null = null;

  get prefillMsPerToken(): number {
    if (this.#told !== null) return this.#told.prefillMsPerToken;
    return Math.max(this.#prefill.coefficients[1] ?? 0, PREFILL_MS_MIN);
  }

  get prefillMsPerPair(): number {
    if (this.#told !== null) return this.#told.prefillMsPerPair ?? 0;
    return this.#prefill.coefficients[2] ?? 0;
  }

  get loadMsPerToken(): readonly [number, number] {
    return this.#told?.loadMsPerToken ?? PRIOR.loadMsPerToken;
  }

  readonly decodeMs = (requests: number, tokens: number): number =>
    this.#told?.decodeMs(requests, tokens) ?? this.#decode.predict([1, requests, tokens]);

  /** What was measured of others says that prompts one behind the other take. */
  expectedMs({ prompts, tokens, pairs }: PrefilledPrompts): number {
    return this.#prefill.predict([prompts, tokens, pairs]);
  }

  /** The worker's own measurement goes before what is seen from outside; null: none any more. */
  told(speeds: WorkerSpeeds | null): void {
    this.#told = speeds;
  }

  /** Prompts one behind the other. */
  prefilled({ prompts, tokens, pairs }: PrefilledPrompts, ms: number): void {
    if (tokens > 0) add(this.#prefill, [prompts, tokens, pairs], ms);
  }

  decoded(ms: number, tokens: number, load: DecodeLoad): void {
    if (!load.undisturbed || !(tokens > 0)) return;
    add(this.#decode, [1, load.requests, load.heldBlocks * load.blockTokens], ms / tokens);
  }
}

/** What was computed of prompts, all together. */
export interface PrefilledPrompts {
  readonly prompts: number;
  readonly tokens: number;
  readonly pairs: number;
}

/** Fits a sample; a far one less. */
function add(fit: DecayedFit, x: readonly number[], ms: number): void {
  if (!(ms > 0) || !Number.isFinite(ms)) return;
  const expected = fit.predict(x);
  const trusted = fit.samples >= TRUSTED_SAMPLES && expected > 0;
  const bounded = trusted
    ? Math.min(Math.max(ms, expected / OUTLIER_FACTOR), expected * OUTLIER_FACTOR)
    : ms;
  fit.add(x, bounded);
}
