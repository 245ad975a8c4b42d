/**
 * engine: turns requests into tokens.
 *
 * `LLM` lives on the caller's thread and deals in text; the engine lives on its own and deals in
 * token ids. Plain data crosses between them, once per step.
 *
 *   bundled-model.ts    where the model is that comes with the package
 *   llm.ts              the public class: load, generate, stream, chat, embed
 *   api.ts              what goes in and comes out; stream-item.ts puts it together
 *   config.ts           how a model is loaded and run
 *   generation-config.ts, request-check.ts   what a request may ask
 *   model-files.ts      what is read of a model's files on the caller's thread
 *   model-text.ts       tokenizer and chat template of a model; template-option.ts another template
 *   warn-once.ts        warnings about requests, each text once
 *   request-starter.ts  a prompt and its checked wishes become a request
 *   active-request.ts   a request seen by its caller; channel.ts its queue, reader-lag.ts how
 *                       far its reader is behind
 *   abort-listener.ts   many requests that listen to one signal
 *   pacer.ts            tokens that wait for each other where many are read
 *   lazy-stream.ts      a stream that begins when it is read
 *   sequence-text.ts    tokens to text, stop strings
 *   engine-client.ts    who waits for what; bounded-map.ts keeps many from coming at once
 *   cache-report.ts     what all levels of the cache counted, for metrics
 *   kv-events.ts        what the cache tells, for readers on the caller's thread
 *   link.ts, protocol.ts, wire-error.ts      the way between the threads
 *   heartbeat.ts        whether the engine goes on, for those who cannot ask it
 *   token-rows.ts       what most steps bring, as numbers
 *   engine-thread.ts, service.ts             the engine's side of it
 *   service-clients.ts  who gets what the engine says, where several threads ask it
 *   load-engine.ts      checkpoint to running engine; memory-plan.ts sizes it
 *   load-phases.ts      what loading takes; worst-step.ts what steps will need of a GPU
 *   cache-plan.ts       a cache before its memory is taken
 *   kv-identity.ts      what keys and values follow from: tells stored ones apart
 *   cuda-settings.ts    where the cuda device looks for its libraries
 *   engine.ts           the step loop: plan, begin, forward, sample, commit
 *   request-record.ts, sequence-task.ts      a request inside the engine
 *   prompt-rows.ts      how much a request may want of its prompt's tokens
 *   dispose-of.ts       lets go of what may have broken
 *   beam-search.ts      which beams go on, and when they are done; beam-record.ts in the engine
 *   step-pipeline.ts    which steps are under way; step-report.ts what they took
 *   prefill-pace.ts     how many prompt tokens a step may have beside those that decode
 *   slow-masks.ts       grammars that a step does not wait for
 *   model-runner.ts     the contract of a forward pass; decoder-runner.ts on a device
 *   step-item.ts        who computes what in a step; step-builder.ts as flat arrays
 *   encoder-engine.ts   embeddings by an encoder
 *   embedding-info.ts   how a model embeds; embed-length.ts how long a text may be
 *
 * Invariant: text never crosses to the engine's thread, tensors never cross back.
 * Invariant: a failing step ends its own sequences; the engine goes on, unless its device broke.
 *
 * @module
 */
export {
  isLost,
  type KvEvent,
  type KvEventItem,
  type KvEventReader,
  KvMirror,
  type KvSnapshot,
  type LostKvEvents,
  type NumberedKvEvent,
  type RetentionConfig,
  type RetentionOptions,
  RetentionParams,
} from "#kvcache";
export type { PositionLogprobs, SamplingOptions, TokenLogprob } from "#sampling";
export { grammarProblem, SamplingParams, StructuredOutput, sequencesOf } from "#sampling";
export type * from "./api.ts";
export { bundledModel } from "./bundled-model.ts";
export { EngineOptions, type LoadOptions } from "./config.ts";
export type { SamplingDefaults } from "./generation-config.ts";
export { LLM, type LlmOptions } from "./llm.ts";
export type { LoadPhase, LoadPhaseName, LoadProgress } from "./protocol.ts";
