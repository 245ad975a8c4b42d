/**
 * engine/loop: the step loop. It imports neither devices nor models: a ModelRunner computes steps.
 *
 *   engine.ts           plan, begin, forward, sample, commit
 *   step-engine.ts      the contract of all engines, those of encoders too
 *   step-pipeline.ts    steps under way; step-report.ts: their times
 *   model-runner.ts     the contract of a forward pass
 *   request-record.ts, sequence-task.ts   a request inside the engine
 *   prompt-rows.ts      limits of per-token prompt results
 *   beam-search.ts      which beams continue, and when they are done; beam-record.ts: per request
 *   prefill-pace.ts     how many prompt tokens a step may have beside decoding sequences
 *   slow-masks.ts       slow grammars, which steps do not wait for
 *   dispose-of.ts       disposes of objects that may be broken
 *
 * @module
 */
export { Engine } from "./engine.ts";
export type { ItemResult, ModelRunner, StartedStep } from "./model-runner.ts";
export type { HiddenPooling } from "./request-record.ts";
export type { SequenceTask } from "./sequence-task.ts";
export type { StepEngine } from "./step-engine.ts";
