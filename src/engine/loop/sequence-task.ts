import type { LogprobRequest, PositionLogprobs, SequenceSampling } from "#sampling";
import type { TokenTree } from "#speculative";
import type { SequenceDrafter } from "./sequence-drafter.ts";

/** Results to compute for a sequence beside its keys and values, and those computed so far. */
export interface SequenceTask {
  /** Which of its request's sequences it is. */
  readonly index: number;
  /** Null until the request's grammar is compiled. */
  sampling: SequenceSampling | null;
  /** Only its keys and values are wanted: it ends with its prompt, and samples no token. */
  readonly computesOnly: boolean;
  /** How many of the likeliest tokens to return per row instead of sampling; 0: sample. */
  readonly beamCandidates: number;
  /** Log-probabilities of prompt tokens. */
  readonly promptLogprobs: PromptLogprobs | null;
  /** Logits of prompt tokens, [tokens, V]. */
  readonly promptLogits: PromptLogits | null;
  /** Drafts its tokens; null: nothing is drafted. */
  readonly drafter: SequenceDrafter | null;
  /** What follows its newest token, if the scheduler has room to verify it; null: unknown. */
  draft: TokenTree | null;
  /** Its row among the sampled tokens of the newest step that samples for it. */
  sampledRow: number;
  /** Collects last hidden states, for embeddings, which sample no token. */
  hiddenPool: HiddenPool | null;
}

/** Makes one vector of a text's last hidden states. */
export interface HiddenPool {
  /** `rows`: [count, E] of positions from `start` on. */
  add(start: number, rows: Float32Array): void;
  /** The vector of the rows so far, at least one. */
  vector(): Float32Array;
}

export interface PromptLogprobs {
  readonly wanted: LogprobRequest;
  /** By position; the first stays null. */
  readonly rows: (PositionLogprobs | null)[];
}

export interface PromptLogits {
  readonly columns: number;
  readonly values: Float32Array;
}
