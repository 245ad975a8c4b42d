import type { Sequence } from "./sequence.ts";

/** One sequence's share of a step: positions `start` up to `start + count` are computed. */
export interface PlannedSequence {
  readonly sequence: Sequence;
  readonly start: number;
  readonly count: number;
  /** The step reaches the newest token, so a new one is drawn from the last row. */
  readonly samples: boolean;
}

/**
 * What one step does. Made by `plan`, which changes nothing; carried out by `begin` (blocks are
 * retained, allocated, taken from the preempted), then by the device, then by `commit`.
 */
export interface StepPlan {
  /** Running sequences first, in order, then newly admitted ones. Never empty unless nothing can run. */
  readonly items: readonly PlannedSequence[];
  /** Sequences that give their blocks back and wait again, latest first. */
  readonly preempted: readonly Sequence[];
  /** Sum of counts. */
  readonly tokens: number;
}
