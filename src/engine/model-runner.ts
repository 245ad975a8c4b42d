import type { PositionLogprobs, TokenCandidates } from "#sampling";
import type { Sequence, StepPlan } from "#scheduler";
import type { SequenceTask } from "./sequence-task.ts";

/** What the forward pass brought for one item of a plan. */
export interface ItemResult {
  /** Drawn tokens: one where the item samples, but for beams, else none. */
  readonly tokenIds: readonly number[];
  /** One per drawn token, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** A beam's likeliest tokens, in place of a drawn one; one row. */
  readonly candidates: TokenCandidates | null;
}

/**
 * Computes steps. What belongs to the prompt (log-probabilities, logits, pooled hidden states) is
 * put into the sequence's task as it becomes known.
 */
export interface ModelRunner {
  /** One result per item of the plan, in order. A rejection fails the step. */
  run(plan: StepPlan, taskOf: (sequence: Sequence) => SequenceTask): Promise<ItemResult[]>;
}
