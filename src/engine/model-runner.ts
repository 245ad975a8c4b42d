import type { PositionLogprobs } from "#sampling";
import type { Sequence, StepPlan } from "#scheduler";
import type { SequenceTask } from "./sequence-task.ts";

/** What the forward pass brought for one item of a plan. */
export interface ItemResult {
  /** Drawn tokens: one where the item samples, else none. */
  readonly tokenIds: readonly number[];
  /** One per drawn token, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
}

/**
 * Computes steps. What belongs to the prompt (log-probabilities, logits, pooled hidden states) is
 * put into the sequence's task as it becomes known.
 */
export interface ModelRunner {
  /** One result per item of the plan, in order. A rejection fails the step. */
  run(plan: StepPlan, taskOf: (sequence: Sequence) => SequenceTask): Promise<ItemResult[]>;
}
