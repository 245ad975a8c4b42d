/** Inputs of the ops that only drafters need. */
import type { DeviceTensor } from "./device-data.ts";

/**
 * Draws among a drafter's likeliest tokens with the noise of sampling (`SampleInput`), so that what
 * is drafted is what the model would sample of this distribution. Each row's log-probabilities
 * become lags: by how much the key of a candidate, topLogprobs / temperature + gumbelAt(seed,
 * position + ahead, token), is behind the row's best, as f32(key - best); 0 is the winner.
 * -Infinity: the filters drop it, each as far as the K candidates show: min_p, then the first top_k
 * of the row, then those before which the sum of probabilities is below top_p. Rows of temperature
 * 0 stay as they are. Keys are f64, with the bits of sampling's.
 */
export interface RaceCandidatesInput {
  /** S. */
  readonly count: number;
  /** Rows of each sequence: s * before up to (s + 1) * before. */
  readonly before: number;
  /** [S * before, K] i32: the likeliest tokens of each row, best first. K <= 256. */
  readonly topTokens: DeviceTensor;
  /** [S * before, K] f32, changed. */
  readonly topLogprobs: DeviceTensor;
  /** [drafted vocabulary] i32: the model's token for each drafted one; absent: itself. */
  readonly tokenMap?: DeviceTensor;
  /** [S] f32, 0: greedy. */
  readonly temperature: DeviceTensor;
  /** [S] i32, 0 = off. */
  readonly topK: DeviceTensor;
  /** [S] f32, 1 = off. */
  readonly topP: DeviceTensor;
  /** [S] f32, 0 = off. */
  readonly minP: DeviceTensor;
  /** [S, 2] u32: low, high. */
  readonly seeds: DeviceTensor;
  /** [S] i32: of the first drafted token. */
  readonly positions: DeviceTensor;
  /** Tokens that are drafted before these ones. */
  readonly ahead: number;
}

/**
 * One level of a beam search for S sequences, as a recurrent drafter makes it on the device. A beam
 * b and its k-th token are a candidate, worth scores[b] + topLogprobs[b, k], one f32 addition. Of
 * each sequence the W largest are kept, best first; equal ones by rising b, then rising k; NaN
 * comes last. Source: Cheng et al. 2024, "Recurrent drafter for fast speculative decoding in large
 * language models" (arXiv 2403.09919).
 */
export interface SelectBeamsInput {
  /** S. */
  readonly count: number;
  /** Beams of each sequence before: rows s * before up to (s + 1) * before of the inputs. */
  readonly before: number;
  /** W: beams of each sequence afterwards. */
  readonly width: number;
  /** [S * before, K] i32: the likeliest tokens of each beam. W <= K * before <= 256. */
  readonly topTokens: DeviceTensor;
  /** [S * before, K] f32. */
  readonly topLogprobs: DeviceTensor;
  /** [S * before] f32: sum of each beam's log-probabilities so far; absent: 0. */
  readonly scores?: DeviceTensor;
  /** [drafted vocabulary] i32: the model's token for each drafted one; absent: itself. */
  readonly tokenMap?: DeviceTensor;
  /** [S * W] f32: sums of the new beams; another tensor than `scores`. */
  readonly outScores: DeviceTensor;
  /** [S * W] i32: last token of each new beam. */
  readonly tokens: DeviceTensor;
  /** [S * W] i32: the row that each new beam continues, s * before + b. */
  readonly parents: DeviceTensor;
}

/** Beams of L levels, each of which `selectBeams` chose. */
export interface TraceBeamsInput {
  /** S. */
  readonly count: number;
  /** W. */
  readonly width: number;
  /** L. */
  readonly length: number;
  /** Elements from a level's tokens to its parents, and on to the next level: at least S * W. */
  readonly stride: number;
  /** [2 * L * stride] i32: of each level the tokens, then the parents. */
  readonly levels: DeviceTensor;
  /** [S, W, L] i32. */
  readonly out: DeviceTensor;
}
