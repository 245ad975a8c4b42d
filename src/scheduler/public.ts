/**
 * perigee/scheduler: which tokens of which sequences each step computes, without a model.
 *
 * A `Scheduler` needs a `KvCache` of `perigee/kvcache`, which only it may change, and a
 * `SchedulerConfig`. The caller computes what is planned, by a model, a cost model or a script, and
 * passes the time in, in milliseconds.
 *
 * `add` queues a `SequenceGroup`, or throws an EngineError: PROMPT_TOO_LONG, QUEUE_FULL. Then, step
 * by step: `plan` decides and changes nothing, `begin` allocates and releases blocks, the caller
 * carries out the cache's moves and computes `plan.items`, and `commit` appends a list of sampled
 * tokens for each item that samples, null for the others; it returns what each sequence got, and
 * whether it ended. `fail` replaces `commit` where the computation failed.
 *
 *   const cache = new KvCache({ blocks: 100, blockTokens: 16 });
 *   const config = SchedulerConfig.parse({ stepTokensMax: 512 });
 *   const scheduler = new Scheduler({ config, cache, contextTokensMax: 1024 });
 *   const stop = { ...NO_STOP_RULES, maxTokens: 8 };
 *   const id = sequenceId(1);
 *   const sequence = new Sequence({ id, requestId: "a", promptTokenIds, arrivalMs: 0, stop });
 *   const sequences = [sequence];
 *   scheduler.add(new SequenceGroup({ requestId: "a", sequences, kind: "samples" }));
 *   for (let nowMs = 0; !sequence.finished; nowMs++) {
 *     const plan = scheduler.plan();
 *     scheduler.begin(plan, nowMs);
 *     cache.takeMoves();
 *     scheduler.commit(plan, plan.items.map(({ samples }) => (samples ? [7] : null)), nowMs);
 *   }
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
  NO_STOP_RULES,
  type RepetitionRule,
  type SequenceEnd,
  type StopRules,
} from "./stop.ts";
export type { TransferEstimates } from "./transfer-estimates.ts";
