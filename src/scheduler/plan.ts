import type { PrefixMatch } from "#kvcache";
import type { Sequence } from "./sequence.ts";

/** One sequence's share of a step: positions `start` up to `start + count` are computed. */
export interface PlannedSequence {
  readonly sequence: Sequence;
  readonly start: number;
  /** 0 for a fork: its first token is sampled from the last row of another item. */
  readonly count: number;
  /**
   * Drafted tokens behind these, which the step computes, too: a token is sampled from each of
   * their rows, and those that the samples confirm stay (SC31).
   */
  readonly drafted: number;
  /** The step reaches the newest token, so a new one is sampled from the last row. */
  readonly samples: boolean;
  /**
   * Set where the sequence is admitted in this step: its stored prefix. Further positions below
   * `start` are computed by an earlier item of the same step.
   */
  readonly admission: PrefixMatch | null;
  /** The item whose sequence this one is forked from, by index, an earlier one; else null. */
  readonly forkOf: number | null;
}

/** How the contents of preempted sequences are kept: not at all, or in host memory. */
export type PreemptionMode = "recompute" | "swap";

/** Sequences of one group that release their blocks and wait again. */
export interface PlannedPreemption {
  /** In running order. */
  readonly sequences: readonly Sequence[];
  readonly mode: PreemptionMode;
}

/** A sequence whose stored prefix continues on disk, and is fetched before it is admitted. */
export interface PlannedLoad {
  readonly sequence: Sequence;
  readonly match: PrefixMatch;
}

/**
 * The work of one step. Made by `plan`, which changes nothing; carried out by `begin` (blocks are
 * retained, allocated, taken from the preempted), then by the device, then by `commit`.
 *
 * Items are computed layer by layer, all of them: a later item may read, in a layer, what an
 * earlier one wrote in it. A device must store the keys and values of all items before it attends.
 */
export interface StepPlan {
  /**
   * Running sequences first, in order, then those that return from host memory, then newly
   * admitted ones, then forks.
   */
  readonly items: readonly PlannedSequence[];
  /** Whole groups, mostly; latest first. */
  readonly preempted: readonly PlannedPreemption[];
  /** Sequences whose contents return from host memory; most have an item, too. */
  readonly returning: readonly Sequence[];
  readonly loads: readonly PlannedLoad[];
  /** Sum of counts, drafted tokens included. */
  readonly tokens: number;
  /** Sum of drafted tokens. */
  readonly drafted: number;
  /** The state of the scheduler that it was made from; `begin` refuses any other. */
  readonly revision: number;
}

/** Whether there is nothing to begin: no item, preemption, return or load. */
export function isEmptyPlan(plan: StepPlan): boolean {
  const { items, preempted, returning, loads } = plan;
  return items.length + preempted.length + returning.length + loads.length === 0;
}

/** The result of a step for a sequence. */
export interface SequenceUpdate {
  readonly sequence: Sequence;
  /** The sampled tokens that were kept: those behind an end are dropped. */
  readonly tokenIds: readonly number[];
  /** The state has the reason. */
  readonly finished: boolean;
}
