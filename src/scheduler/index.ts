/**
 * scheduler: which tokens each step computes, for whom, and who gives way when blocks run out.
 *
 * A sequence's computed tokens chase its tokens; a step moves each a little further, within one
 * budget of tokens and one pool of blocks. Prompts and single tokens differ in nothing but count.
 *
 *   scheduler.ts      the sequences' books: add, plan, begin, commit, fail, finish
 *   planner.ts        chooses a step, reading only
 *   block-ledger.ts   counts what a plan will do to the pool
 *   plan.ts           what a step does, and what it brought
 *   sequence.ts       one stream of tokens
 *   queue.ts          who waits, in order
 *   stop.ts           when a sequence ends by itself
 *   config.ts         settings
 *
 * Invariant: `plan` changes nothing; `commit` is the one place where sequences grow.
 * Invariant: only running sequences hold blocks (SPEC.md, SC3).
 *
 * @module
 */
export { SchedulerConfig } from "./config.ts";
export type { PlannedSequence, SequenceUpdate, StepPlan } from "./plan.ts";
export { Scheduler, type SchedulerOptions, type SchedulerStats } from "./scheduler.ts";
export {
  Sequence,
  type SequenceId,
  type SequenceOptions,
  type SequenceState,
  sequenceId,
} from "./sequence.ts";
export {
  type EndReason,
  endAfterNewest,
  NO_STOP_RULES,
  type RepetitionRule,
  type SequenceEnd,
  type StopContext,
  type StopRules,
} from "./stop.ts";
