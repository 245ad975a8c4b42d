import type { WireError } from "#engine/protocol";
import type { CacheMoves } from "#kvcache";
import type { PositionLogprobs, TokenCandidates } from "#sampling";
import type { PlannedSequence } from "#scheduler";
import type { TokenTree } from "#speculative";
import type { SequenceTask } from "./sequence-task.ts";

/** The forward pass's results for one item of a plan. */
export interface ItemResult {
  /** Sampled tokens: one where the item samples and is no beam, else none. */
  readonly tokenIds: readonly number[];
  /** One per sampled token, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** A beam's likeliest tokens, in place of a sampled one; one row. */
  readonly candidates: TokenCandidates | null;
  /** Drafted tokens that were verified for it. Default: 0. */
  readonly drafted?: number;
  /** What a drafter beside the model expects behind these tokens. Default: null, nothing. */
  readonly draft?: TokenTree | null;
  /** Why the item's request, and no other, must end: its other results are ignored. */
  readonly failure?: WireError;
}

/** A step to compute. */
export interface StepWork {
  /** Carried out first, also where the rest fails. */
  readonly moves: CacheMoves;
  /** The items of a plan; none: there are only moves. */
  readonly items: readonly PlannedSequence[];
  /** [items]: the task of each. */
  readonly tasks: readonly SequenceTask[];
}

/** A step that was submitted to the device, and may still run. */
export interface StartedStep {
  /** Time of the host for moves, which is no part of the step's own. */
  readonly movesMs: number;
  /**
   * Waits for it, and for no step started after it: one result per item of the plan, in order. A
   * rejection fails the step. To be called once.
   */
  finish(): Promise<readonly ItemResult[]>;
}

/**
 * Computes steps. Results of the prompt (log-probabilities, logits, pooled hidden states) are
 * stored in the sequence's task as they are computed.
 */
export interface ModelRunner {
  /**
   * Enqueues a step. The step before may still run: tokens that it samples are read on the device,
   * where the plan needs them. A rejection fails this step, and not the one before; MovesFailed
   * means that no step may follow.
   */
  start(work: StepWork): Promise<StartedStep>;
}
