/**
 * scheduler: which tokens of which sequences each step computes, and which sequences are preempted
 * when blocks run out.
 *
 * A step advances the computed tokens of each sequence towards its tokens, within one budget of
 * tokens and one pool of blocks. Prefill and decode differ only in the number of tokens.
 *
 *   scheduler.ts         add, plan, begin, commit, fail, finish: the calls of the engine
 *   planner.ts           chooses a step, reading only, by
 *   plan-draft.ts          the step as far as it is decided; limits the chunk of a prompt
 *   running-planner.ts     the work of running sequences
 *   preemption.ts          which sequences are preempted for them
 *   return-planner.ts      which swapped sequences resume
 *   admission-planner.ts   which waiting sequences start
 *   prefix-finder.ts       the prefix that need not be computed
 *   block-ledger.ts        the effect of the plan on the pool
 *   plan.ts              the work of a step, and its results
 *   step-starter.ts      carries a plan out
 *   step-log.ts          steps that have begun, and the blocks that they published
 *   sequence-books.ts    the place of each sequence: queued, running or swapped
 *   queue.ts             waiting sequences, in order
 *   sequence.ts          one stream of tokens; sequence-state.ts: where it stands
 *   sequence-group.ts    the sequences of a request, which share a prompt
 *   beams.ts             sequences of one beam search, and their regrouping
 *   stop.ts              when a sequence ends by itself
 *   transfer-estimates.ts  the costs of moving contents
 *   stats-book.ts        what happened since the start
 *   block-needs.ts       blocks that a sequence needs at a time, windows considered
 *   config.ts            settings
 *   public.ts            what users of the package import
 *
 * Invariant: `plan` changes nothing; `commit` is the one place where sequences grow.
 * Invariant: only running sequences hold blocks of the device (SPEC.md, SC3).
 *
 * @module
 */
export type { BeamContinuation } from "./beams.ts";
export { SchedulerConfig } from "./config.ts";
export {
  isEmptyPlan,
  type PlannedLoad,
  type PlannedPreemption,
  type PlannedSequence,
  type PreemptionMode,
  type SequenceUpdate,
  type StepPlan,
} from "./plan.ts";
export { Scheduler, type SchedulerOptions, type SchedulerStats } from "./scheduler.ts";
export {
  Sequence,
  type SequenceId,
  type SequenceOptions,
  type SequenceRetention,
  sequenceId,
} from "./sequence.ts";
export { type GroupKind, SequenceGroup, type SequenceGroupOptions } from "./sequence-group.ts";
export type { SequenceState } from "./sequence-state.ts";
export type { StatsSinceStart } from "./stats-book.ts";
export {
  type EndReason,
  endAfterNewest,
  endWithin,
  generatedTokensMax,
  NO_STOP_RULES,
  type RepetitionRule,
  type SequenceEnd,
  type StopContext,
  type StopRules,
} from "./stop.ts";
export type { TransferEstimates } from "./transfer-estimates.ts";
