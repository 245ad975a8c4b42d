import type { SequenceSampling } from "./sequence-sampling.ts";

/** One row of logits and whose it is. */
export interface SamplingRow {
  readonly sampling: SequenceSampling;
  /** Place in its sequence of the token to be drawn: the key of its randomness. */
  readonly position: number;
  /** Tokens before it that are still being drawn, which `sampling` has not heard of. Default 0. */
  readonly awaitedTokens?: number;
}
