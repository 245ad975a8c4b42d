import type { SequenceSampling } from "./sequence-sampling.ts";

/** One row of logits and the sampling of its sequence. */
export interface SamplingRow {
  readonly sampling: SequenceSampling;
  /** Position in its sequence of the token to be sampled: the key of its randomness. */
  readonly position: number;
  /** Tokens before it whose sampling is still pending, so that `sampling` lacks them. Default 0. */
  readonly awaitedTokens?: number;
  /** Drafted tokens before it, which `sampling` has not accepted. Default: none. */
  readonly drafted?: Int32Array;
}
