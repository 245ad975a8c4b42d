/**
 * What the host tells the device about a batch's rows, as plain data: it can be cloned, and posted
 * to another process. R rows. The arrays are reused: valid until the same writer's next batch.
 */
import type { LogprobRequest } from "./logprobs.ts";

/** How each row is sampled. Arrays may be longer than the batch. */
export interface SamplingBatch {
  /** R. */
  readonly count: number;
  /** [R]: the sampled tokens' places in their sequences, the keys of their randomness. */
  readonly positions: Int32Array;
  /** [R] each. */
  readonly topK: Int32Array;
  readonly temperature: Float32Array;
  readonly topP: Float32Array;
  readonly minP: Float32Array;
  /** [R, 2]: low and high word of each seed. */
  readonly seeds: Uint32Array;
  /** [R]: log-probabilities to report, of the logits before any edit; null: none of any row. */
  readonly logprobs: readonly (LogprobRequest | null)[] | null;
  /** Some rows have edits: sampling waits for the edits of all rows. */
  readonly edited: boolean;
}

/** Edits of the logits of adjacent rows: penalties, biases and masks. Exactly as long as needed. */
export interface RowEdits {
  /** The first of these rows in its batch. */
  readonly first: number;
  /** R, at least one. */
  readonly count: number;
  /** [R + 1] running sum: row r owns entries starts[r] up to starts[r + 1]. */
  readonly starts: Int32Array;
  /** [entries]: a token of a row, what is added to its logit, and how often it was sampled. */
  readonly tokens: Int32Array;
  readonly biases: Float32Array;
  readonly counts: Int32Array;
  /** [R] each. */
  readonly repetition: Float32Array;
  readonly frequency: Float32Array;
  readonly presence: Float32Array;
  /** Null: no row has a mask. */
  readonly masks: RowMasks | null;
}

/** The tokens that rows allow. */
export interface RowMasks {
  /** [R, ceil(V / 32)], bit set = allowed. */
  readonly allowed: Uint32Array;
  /** [R], one where the row's words of `allowed` apply. */
  readonly rows: Int32Array;
}
