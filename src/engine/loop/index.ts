/**
 * engine/loop: the step loop. It imports neither devices nor models: a ModelRunner computes.
 *
 *   engine.ts           plan, begin, forward, sample, commit
 *   step-pipeline.ts    which steps are under way; step-report.ts: how long they took
 *   model-runner.ts     the contract of a forward pass
 *   request-record.ts, sequence-task.ts   a request inside the engine
 *   prompt-rows.ts      how many rows of its prompt a request may ask for
 *   beam-search.ts      which beams continue, and when they are done; beam-record.ts: per request
 *   prefill-pace.ts     how many prompt tokens a step may have beside decoding sequences
 *   slow-masks.ts       grammars that a step does not wait for
 *   dispose-of.ts       disposes of what may be broken
 *
 * @module
 */
export { Engine } from "./engine.ts";
export type { ItemResult, ModelRunner, StartedStep } from "./model-runner.ts";
export type { HiddenPooling } from "./request-record.ts";
export type { SequenceTask } from "./sequence-task.ts";
