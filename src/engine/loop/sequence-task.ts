import type { LogprobRequest, PositionLogprobs, SequenceSampling } from "#sampling";

/** What is to be computed for a sequence beside its keys and values, and what was so far. */
export interface SequenceTask {
  /** Null until the request's grammar is compiled. */
  sampling: SequenceSampling | null;
  /** How many of the likeliest tokens are wanted of each row, instead of a draw; 0: a draw. */
  readonly beamCandidates: number;
  /** Log-probabilities of prompt tokens. */
  readonly promptLogprobs: PromptLogprobs | null;
  /** Logits of prompt tokens, [tokens, V]. */
  readonly promptLogits: PromptLogits | null;
  /** Its row among the tokens that the newest step draws, or drew when it was the newest. */
  drawnRow: number;
  /** Takes last hidden states: for embeddings, which draw nothing that is used. */
  hiddenPool: HiddenPool | null;
}

/** Makes one vector of a text's last hidden states. */
export interface HiddenPool {
  /** `rows`: [count, E] of positions from `start` on. */
  add(start: number, rows: Float32Array): void;
  /** Of the rows so far, at least one. */
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
