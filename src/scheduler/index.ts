/**
 * scheduler: which tokens each step computes, for whom, and who gives way when blocks run out.
 *
 * A sequence's computed tokens chase its tokens; a step moves each a little further, within one
 * budget of tokens and one pool of blocks. Prompts and single tokens differ in nothing but count.
 *
 *   scheduler.ts         add, plan, begin, commit, fail, finish: the calls of the engine
 *   planner.ts           chooses a step, reading only, by
 *   plan-draft.ts          the step as far as it is decided
 *   running-planner.ts     what running sequences do
 *   preemption.ts          who makes room for them
 *   return-planner.ts      who comes back from host memory
 *   admission-planner.ts   who starts
 *   prefix-finder.ts       what it need not compute
 *   block-ledger.ts        what all that will do to the pool
 *   plan.ts              what a step does, and what it brought
 *   step-starter.ts      carries a plan out
 *   step-log.ts          steps that have begun, and what they made known
 *   sequence-books.ts    where each sequence is
 *   queue.ts             who waits, in order
 *   sequence.ts          one stream of tokens
 *   sequence-group.ts    the sequences of a request, which share a prompt
 *   beams.ts             sequences of one search, and how it goes on
 *   stop.ts              when a sequence ends by itself
 *   transfer-estimates.ts  what moving contents costs
 *   statistics.ts        what happened since the start
 *   window-bound.ts      what a long sequence needs where blocks fall out of a window
 *   config.ts            settings
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
export type { SchedulerCounts } from "./statistics.ts";
export {
  type EndReason,
  endAfterNewest,
  generatedTokensMax,
  NO_STOP_RULES,
  type RepetitionRule,
  type SequenceEnd,
  type StopContext,
  type StopRules,
} from "./stop.ts";
export type { TransferEstimates } from "./transfer-estimates.ts";
