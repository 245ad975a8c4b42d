/**
 * engine: turns requests into tokens.
 *
 * `LLM` lives on the caller's thread and deals in text; the engine lives on its own and deals in
 * token ids. Plain data crosses between them, once per step.
 *
 *   llm.ts       the public class: load, generate, stream, chat, embed
 *
 * Rooms, each with a door of its own, low to high:
 *
 *   protocol/    what crosses between the threads, and the plain types of both sides
 *   tiers/       the bytes of host memory and disk
 *   loop/        the step loop, which imports neither devices nor models
 *   forward/     steps computed by a model on a device
 *   caller/      what runs on the caller's thread; it never imports the loop
 *   thread/      loads a model and serves callers, on the engine's own thread
 *
 * Invariant: text never crosses to the engine's thread, tensors never cross back.
 * Invariant: a failing step ends its own sequences; the engine goes on, unless its device broke.
 *
 * @module
 */

export { bundledModel, type SamplingDefaults } from "#engine/caller";
export {
  type BeamScore,
  type CacheLevelName,
  type CacheLevelReport,
  type CacheReport,
  type ChatMessage,
  type ChatOptions,
  type Completion,
  type CompletionDelta,
  type DecodeTextOptions,
  type EmbeddingInfo,
  type EmbedResult,
  type EncodeTextOptions,
  type EngineHealth,
  type EngineListener,
  EngineOptions,
  type EngineStats,
  type FinishReason,
  type GenerateOptions,
  type GenerateResult,
  type KvEventSource,
  type LoadOptions,
  type LoadPhase,
  type LoadPhaseName,
  type LoadProgress,
  type ModelConnection,
  type ModelInfo,
  type MoveDirection,
  type MoveReport,
  type Prompt,
  type PromptInfo,
  type RequestSummary,
  type RequestTimes,
  type ServedModel,
  type StepReport,
  type StreamItem,
  type TextCodec,
  type TextFrame,
} from "#engine/protocol";
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
export { LLM, type LlmOptions } from "./llm.ts";
