/**
 * engine/protocol: messages between the caller's thread and the engine's, and plain types.
 *
 *   api.ts          arguments and results of callers; stats.ts: counts of an engine;
 *                   timed-look.ts: what its cache has where
 *   chat.ts         tools, results and events of conversations; listener.ts: events for metrics
 *   config.ts       how a model is loaded and run; kv-cache-config.ts: its cache
 *   mock-config.ts  costs in place of a model; kv-transfer-config.ts: blocks that travel
 *   protocol.ts     messages between the threads; token-rows.ts packs most of a step's output as
 *                   numbers; wire-error.ts carries errors
 *   loaded-drafts.ts  what a model's tokens are drafted by; speculation-info.ts: what callers see
 *   kv-source.ts    other engines that give keys and values of a prompt; kv-fill.ts: blocks that
 *                   are fetched for later requests
 *   stage-offer.ts, stage-times.ts  what stages of a model tell of transfers, and of their time
 *   earlier-tokens.ts  what other engines generated of a request
 *   heartbeat.ts    shows callers whether the engine still runs
 *   embedding.ts    vectors of texts, as callers see them
 *   embed-length.ts errors and warnings about texts to embed; text-beginning.ts cuts them
 *   warn-once.ts    warnings about requests, each text once
 *
 * @module
 */
export type {
  BeamScore,
  ChatMessage,
  ChatOptions,
  Completion,
  CompletionDelta,
  DecodeTextOptions,
  DraftUse,
  EncodeTextOptions,
  GeneratedTokens,
  GenerateOptions,
  GenerateResult,
  KvEventSource,
  ModelConnection,
  ModelInfo,
  Prompt,
  PromptInfo,
  ServedModel,
  StreamItem,
  TextCodec,
  TextFrame,
  TokenPrompt,
} from "./api.ts";
export {
  type ArgumentsOf,
  type ChatCallOptions,
  type ChatEvent,
  type ChatFinishReason,
  type ChatResult,
  type ChatTool,
  type ChatToolCall,
  type ChatUsage,
  defineTool,
  type ToolRun,
  type ToolSchema,
  type TypedTool,
  type ValueOf,
} from "./chat.ts";
export { EngineOptions, type LoadOptions, parseEngineOptions } from "./config.ts";
export { type EarlierTokens, endedBefore } from "./earlier-tokens.ts";
export { checkEmbedLength, embedFailure, warnOfGuess } from "./embed-length.ts";
export type {
  EmbeddingInfo,
  EmbedResult,
  EmbedTextOptions,
  PairScoringInfo,
  ScoreOptions,
  ScoreResult,
} from "./embedding.ts";
export { Heartbeat } from "./heartbeat.ts";
export type { KvFill, KvFillOptions, KvFillResult } from "./kv-fill.ts";
export type { KvSource, KvSourceOptions } from "./kv-source.ts";
export type {
  EngineHealth,
  EngineListener,
  FinishReason,
  RequestSummary,
  RequestTimes,
  StepReport,
} from "./listener.ts";
export { draftsOfKind, loadedDrafts } from "./loaded-drafts.ts";
export { CostFileConfig, MockOptions, MockWorkerOptions, parseCostFile } from "./mock-config.ts";
export { isPipelined } from "./pipeline-config.ts";
export {
  clientOf,
  type EmbeddingOutput,
  type EmbedRequest,
  type EngineInfo,
  type EngineRequest,
  FIRST_CLIENT,
  type FromEngine,
  firstKeyOf,
  type LoadMessage,
  type LoadPhase,
  type LoadPhaseName,
  type LoadProgress,
  type LoopStats,
  PEER_CLIENT,
  type PromptOutput,
  type ReadyMessage,
  type RequestFailure,
  type RequestKey,
  type SequenceOutput,
  type StepMessage,
  type StepOutput,
  type ToEngine,
  type WantedShape,
  type WireError,
} from "./protocol.ts";
export type { DrafterInfo, DraftLimits, SpeculationInfo } from "./speculation-info.ts";
export type { StageOffer } from "./stage-offer.ts";
export { type HiddenPlace, NO_STAGE_TIMES, type StageTimes } from "./stage-times.ts";
export type {
  CacheLevelName,
  CacheLevelReport,
  CacheReport,
  EngineStats,
  FlushReport,
  MoveDirection,
  MoveReport,
} from "./stats.ts";
export { beginning } from "./text-beginning.ts";
export type { TimedLook } from "./timed-look.ts";
export { forEachRow, packOutputs, plainOutput } from "./token-rows.ts";
export { warnOnce } from "./warn-once.ts";
export { engineDeath, fromWire, requestFailure, stepFailure, toWire } from "./wire-error.ts";
