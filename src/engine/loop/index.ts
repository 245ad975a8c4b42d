/**
 * engine/loop: the step loop. It imports neither devices nor models: each step is a StepCommand,
 * plain data, that a StepExecutor computes.
 *
 *   engine.ts           plan, begin, forward, sample, commit
 *   step-engine.ts      the contract of all engines, those of encoders too
 *   step-pipeline.ts    steps under way; step-report.ts: their times
 *   model-runner.ts     the contract of a forward pass: plans in, results of items out
 *   command-runner.ts   the one runner: step-item.ts finds the rows that each sequence needs,
 *                       command-builder.ts packs them
 *   accepted-tokens.ts  moves of accepted tokens of trees
 *   step-command.ts     a step as plain data; step-executor.ts: the contract of who computes it
 *   request-record.ts, sequence-task.ts   a request inside the engine
 *   earlier-tokens.ts   what other engines generated of a request
 *   prompt-rows.ts      limits of per-token prompt results
 *   beam-search.ts      which beams continue, and when they are done; beam-record.ts: per request
 *   prefill-pace.ts     how many prompt tokens a step may have beside decoding sequences
 *   drafting.ts         drafts of all sequences; sequence-drafter.ts: the contract of one's,
 *                       lookup-drafts.ts, model-drafts.ts, mixed-drafts.ts, grammar-drafts.ts;
 *                       request-drafts.ts: which a request has
 *   draft-policy.ts     how much of the drafts a step verifies, by measured times
 *   kind-costs.ts       how long steps take, by what a network drafts behind them
 *   measured-costs.ts   how long steps take, measured before any request
 *   draft-seeds.ts      what the drafter beside the model continues
 *   late-drafts.ts      drafts that the device verifies before the host knows their tokens
 *   failure-list.ts     requests that failed since they were last reported
 *   loop-counts.ts      steps and tokens since the start
 *   slow-masks.ts       slow grammars, which steps do not wait for
 *   dispose-of.ts       disposes of objects that may be broken
 *
 * @module
 */
export { CommandBuilder, type CommandLimits } from "./command-builder.ts";
export { CommandRunner } from "./command-runner.ts";
export { DraftPolicy } from "./draft-policy.ts";
export type { StepPolicy } from "./drafting.ts";
export { Engine, type EngineParts } from "./engine.ts";
export { measureCosts, practise } from "./measured-costs.ts";
export type { DraftSources } from "./request-drafts.ts";
export type { HiddenPooling } from "./request-record.ts";
export type { SequenceTask } from "./sequence-task.ts";
export {
  movesOnly,
  type PromptRows,
  type RowSearch,
  type StepCommand,
  type TokenMoves,
} from "./step-command.ts";
export type { StepEngine } from "./step-engine.ts";
export {
  type CommandResult,
  MovesFailed,
  type PromptPart,
  type StartedCommand,
  type StepExecutor,
} from "./step-executor.ts";
