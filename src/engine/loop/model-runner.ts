import type { WireError } from "#engine/protocol";
import type { PositionLogprobs, TokenCandidates } from "#sampling";
import type { StepPlan } from "#scheduler";
import type { SequenceTask } from "./sequence-task.ts";

/** What the forward pass brought for one item of a plan. */
export interface ItemResult {
  /** Drawn tokens: one where the item samples, but for beams, else none. */
  readonly tokenIds: readonly number[];
  /** One per drawn token, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** A beam's likeliest tokens, in place of a drawn one; one row. */
  readonly candidates: TokenCandidates | null;
  /** Why the item's request must end, and nobody else: what it brings here counts for nothing. */
  readonly failure?: WireError;
}

/** A step that was handed to the device, and may still run. */
export interface StartedStep {
  /**
   * Waits for it, and for no step started behind it: one result per item of the plan, in order. A
   * rejection fails the step. To be called once.
   */
  finish(): Promise<readonly ItemResult[]>;
}

/**
 * Computes steps. What belongs to the prompt (log-probabilities, logits, pooled hidden states) is
 * put into the sequence's task as it becomes known.
 */
export interface ModelRunner {
  /**
   * Enqueues a step; `tasks[i]` is the task of the plan's item i. The step before may still run:
   * tokens that it draws are taken on the device, where the plan counts on them. A rejection fails
   * the step, and leaves the one before alone.
   */
  start(plan: StepPlan, tasks: readonly SequenceTask[]): Promise<StartedStep>;
}
