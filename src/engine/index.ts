/**
 * engine: turns requests into tokens.
 *
 * `LLM` runs on the caller's thread and works with text; the engine runs on its own thread and
 * works with token ids. Plain data passes between them, once per step.
 *
 *   llm.ts       the public class: load, generate, stream, chat, embed
 *   text-model.ts   the text side of a model alone, for processes that compute nothing
 *   mock-models.ts   models without weights, for sizing fleets
 *
 * Subfolders, each with its own index.ts, lowest layer first:
 *
 *   protocol/    messages between the threads, and the plain types of both sides
 *   tiers/       KV blocks in host memory and on disk
 *   loop/        the step loop, which imports neither devices nor models
 *   forward/     steps computed by a model on a device
 *   mock/        what a worker without a model has in place of one
 *   caller/      the caller's thread; it never imports the loop
 *   thread/      loads a model and serves callers, on the engine's own thread
 *
 * Invariant: text never goes to the engine's thread, tensors never come from it.
 * Invariant: a failing step ends its own sequences; the engine goes on, unless its device broke.
 *
 * @module
 */

export {
  bundledModel,
  CHAT_ROLES,
  needsContent,
  type SamplingDefaults,
  TEXT_PARTS,
} from "#engine/caller";
export {
  type ArgumentsOf,
  type BeamScore,
  beginning,
  type CacheLevelName,
  type CacheLevelReport,
  type CacheReport,
  type ChatCallOptions,
  type ChatEvent,
  type ChatFinishReason,
  type ChatMessage,
  type ChatOptions,
  type ChatResult,
  type ChatTool,
  type ChatToolCall,
  type ChatUsage,
  type Completion,
  type CompletionDelta,
  type DecodeTextOptions,
  type DraftUse,
  defineTool,
  type EmbeddingInfo,
  type EmbedResult,
  type EmbedTextOptions,
  type EncodeTextOptions,
  type EngineHealth,
  type EngineListener,
  EngineOptions,
  type EngineStats,
  type FinishReason,
  type FlushReport,
  type GeneratedTokens,
  type GenerateOptions,
  type GenerateResult,
  type KvEventSource,
  type LoadOptions,
  type LoadPhase,
  type LoadPhaseName,
  type LoadProgress,
  MockWorkerOptions,
  type ModelConnection,
  type ModelInfo,
  type MoveDirection,
  type MoveReport,
  type PairScoringInfo,
  type Prompt,
  type PromptInfo,
  type RequestSummary,
  type RequestTimes,
  type ScoreOptions,
  type ScoreResult,
  type ServedModel,
  type SpeculationInfo,
  type StageTimes,
  type StepReport,
  type StreamItem,
  type TextCodec,
  type TextFrame,
  type TimedLook,
  type TokenPrompt,
  type ToolRun,
  type ToolSchema,
  type TypedTool,
  type ValueOf,
} from "#engine/protocol";
export {
  type CacheAsk,
  type CacheLook,
  isLost,
  type KvEvent,
  type KvEventItem,
  type KvEventReader,
  KvMirror,
  type KvSnapshot,
  type LostKvEvents,
  type NumberedKvEvent,
  type PrefixPicture,
  type RetentionConfig,
  type RetentionOptions,
  RetentionParams,
} from "#kvcache";
export type { PositionLogprobs, SamplingOptions, TokenLogprob } from "#sampling";
export {
  grammarProblem,
  parseOptions,
  SamplingParams,
  StructuredOutput,
  sequencesOf,
} from "#sampling";
export { LLM, type LlmOptions } from "./llm.ts";
export {
  MOCK_STEP_TOKENS,
  type MockCosts,
  type MockModelOptions,
  mockOptions,
  startMockModel,
  startMockModels,
} from "./mock-models.ts";
export { TextModel, type TextModelOptions } from "./text-model.ts";
