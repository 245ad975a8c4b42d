import type { PrefixMatch } from "#kvcache";
import type { Sequence } from "./sequence.ts";

/** One sequence's share of a step: positions `start` up to `start + count` are computed. */
export interface PlannedSequence {
  readonly sequence: Sequence;
  readonly start: number;
  readonly count: number;
  /** The step reaches the newest token, so a new one is drawn from the last row. */
  readonly samples: boolean;
  /**
   * Set where the sequence is admitted in this step: its stored prefix. What `start` covers beyond
   * it is computed by an earlier item of the same step.
   */
  readonly admission: PrefixMatch | null;
}

/**
 * What one step does. Made by `plan`, which changes nothing; carried out by `begin` (blocks are
 * retained, allocated, taken from the preempted), then by the device, then by `commit`.
 *
 * Items are computed layer by layer, all of them: a later item may read, in a layer, what an
 * earlier one wrote in it. A device must store the keys and values of all items before it attends.
 */
export interface StepPlan {
  /**
   * Running sequences first, in order, then newly admitted ones. With none, and none preempted,
   * nothing can run now: there is no need to begin.
   */
  readonly items: readonly PlannedSequence[];
  /** Sequences that give their blocks back and wait again, latest first. */
  readonly preempted: readonly Sequence[];
  /** Sum of counts. */
  readonly tokens: number;
  /** Which state of the scheduler it was made from; `begin` refuses any other. */
  readonly revision: number;
}

/** What a step brought a sequence. */
export interface SequenceUpdate {
  readonly sequence: Sequence;
  /** The drawn tokens that were kept: those behind an end are dropped. */
  readonly tokenIds: readonly number[];
  /** The state says why. */
  readonly finished: boolean;
}
