/**
 * Messages between the calling thread and the engine's: plain data, structured-cloneable. Text
 * stays on the calling thread; messages contain token ids only.
 */
import type { MessagePort } from "node:worker_threads";
import type { ErrorCode } from "#base";
import type { CacheAsk, KvSnapshot, NumberedKvEvent, RetentionConfig } from "#kvcache";
import type { DraftKind, PositionLogprobs, SamplingParams, ThinkingMarks } from "#sampling";
import type { DraftShape } from "#speculative";
import type { GrammarVocabulary } from "#tokenizer";
import type { BeamScore, ModelInfo } from "./api.ts";
import type { EngineOptions } from "./config.ts";
import type { EarlierTokens } from "./earlier-tokens.ts";
import type { KvFill, KvFillResult } from "./kv-fill.ts";
import type { KvSource } from "./kv-source.ts";
import type { FinishReason, StepReport } from "./listener.ts";
import type { CacheReport, EngineStats, FlushReport } from "./stats.ts";
import type { TimedLook } from "./timed-look.ts";

/**
 * Identifies one request between the threads. Never used twice, so that late output of an aborted
 * request cannot reach another one, whatever ids the callers choose.
 */
export type RequestKey = number;

/** Client c takes its keys from c times this on: no two clients of an engine share a key. */
const KEYS_PER_CLIENT = 2 ** 40;

/** The client that loaded the model. Clients that came later have higher numbers. */
export const FIRST_CLIENT = 0;

/** No client's: requests that an engine computes for other engines. */
export const PEER_CLIENT = 2 ** 13 - 1;

/** A client's first key. */
export function firstKeyOf(client: number): RequestKey {
  return client * KEYS_PER_CLIENT + 1;
}

/** The client that made the request. */
export function clientOf(key: RequestKey): number {
  return Math.floor(key / KEYS_PER_CLIENT);
}

/**
 * One prompt to generate from: plain data, and all that the engine learns of a request. Its options
 * are checked, and its sampling parameters parsed, before it is posted.
 */
export interface EngineRequest {
  readonly key: RequestKey;
  /** The caller's id of the request. */
  readonly requestId: string;
  /** Of this message alone: the array is transferred, and empty for the thread that posted it. */
  readonly promptTokenIds: Int32Array<ArrayBuffer>;
  /** What another engine generated, an entry per sequence. Absent: nothing, it begins here. */
  readonly generated?: readonly EarlierTokens[];
  readonly params: SamplingParams;
  /** Sequence i samples with seed + i. */
  readonly seed: bigint;
  readonly cacheSalt: string | null;
  /** How long its blocks stay cached; null: unspecified. */
  readonly retention: RetentionConfig | null;
  readonly priority: number;
  /** Every tokenisation of each bad word. */
  readonly badWordTokenIds: readonly (readonly number[])[];
  /** Marks of the model's thinking, where it is to be limited. */
  readonly thinking: ThinkingMarks | null;
  /** Return the logits of every prompt token. */
  readonly promptLogits: boolean;
  /** What may be drafted of a sequence in one step; null: nothing is. */
  readonly draftShape: WantedShape | null;
  /** Tokens that the output is likely to repeat; null: none are known. */
  readonly predictedTokenIds: Int32Array | null;
  /** Who has, or computes, keys and values of the prompt. Absent: no other engine is asked. */
  readonly kvSource?: KvSource;
  /** Prompt tokens that another engine computed for this request: they were found in no cache. */
  readonly computedElsewhere?: number;
  /**
   * Only keys and values of the prompt are wanted, which another engine reads: no token is sampled,
   * and the one that ends the request is none. Default: false.
   */
  readonly computesOnly?: boolean;
}

/** How much may be drafted, and by what. */
export interface WantedShape extends DraftShape {
  readonly kind: DraftKind;
  /** Most tokens of a draft that a grammar forces. Default: as many as of others. */
  readonly forcedMax?: number;
  /** Most tokens that are looked up where a network drafts. Default: 0, none are. */
  readonly besideMax?: number;
}

/** One prompt whose last hidden states are wanted. */
export interface EmbedRequest {
  readonly key: RequestKey;
  /** Transferred, as those of an `EngineRequest`. */
  readonly promptTokenIds: Int32Array<ArrayBuffer>;
  /** Leading tokens of a prompt that is not pooled. Absent: none. */
  readonly skippedTokens?: number;
  /** Tokens from here on are of type 1: the second text of a pair. Absent: none. */
  readonly secondFrom?: number;
}

export interface LoadMessage {
  readonly type: "load";
  readonly path: string;
  readonly options: EngineOptions;
}

/** Progress of a slow part of loading. */
export interface LoadProgress {
  /**
   * `kernels`: files of GPU kernels that were not compiled before; `weights`: bytes of the
   * checkpoint; `graphs`: sizes of steps that a GPU captures as CUDA graphs.
   */
  readonly part: "kernels" | "weights" | "graphs";
  readonly done: number;
  readonly total: number;
}

/**
 * Parts of loading, in their order: `device` with its kernels, `steps` with the largest ones run
 * once, `cache` with all its levels.
 */
export type LoadPhaseName =
  | "files"
  | "device"
  | "weights"
  | "steps"
  | "cache"
  | "graphs"
  | "drafts";

/** Time and memory of one part of loading. */
export interface LoadPhase {
  readonly name: LoadPhaseName;
  readonly seconds: number;
  /** Memory of the GPU; 0 on other devices. */
  readonly bytes: number;
}

export type ToEngine =
  | LoadMessage
  /** Precedes the first request with structured output. */
  | { readonly type: "vocabulary"; readonly vocabulary: GrammarVocabulary }
  | { readonly type: "add"; readonly request: EngineRequest }
  | { readonly type: "embed"; readonly request: EmbedRequest }
  /** `index`: one sequence of the request; absent: all. */
  | { readonly type: "abort"; readonly key: RequestKey; readonly index?: number }
  /** Its reader lags, or has caught up: nothing is computed for it in between. */
  | { readonly type: "pause"; readonly key: RequestKey }
  | { readonly type: "resume"; readonly key: RequestKey }
  /** Requests the cache's contents, for a reader of its events. */
  | { readonly type: "kvSnapshot"; readonly key: RequestKey }
  /** Forgets cached blocks; those that are held stay. */
  | { readonly type: "forgetCached"; readonly key: RequestKey }
  /** Looks into the cache, for people. */
  | { readonly type: "look"; readonly key: RequestKey; readonly ask: CacheAsk }
  /** Fetches blocks that no request waits for. */
  | { readonly type: "fill"; readonly key: RequestKey; readonly fill: KvFill }
  /** A later client's warning, to be passed to the first client. */
  | { readonly type: "warn"; readonly message: string }
  /** One more client, on a thread of its own: `port`, which is transferred, connects to it. */
  | { readonly type: "connect"; readonly client: number; readonly port: MessagePort }
  | { readonly type: "close" };

export interface WireError {
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly param: string | null;
}

/** New tokens of one sequence after one step. */
export interface SequenceOutput {
  readonly key: RequestKey;
  readonly index: number;
  readonly tokenIds: readonly number[];
  /** Tokens that were drafted for the step. Absent: none. */
  readonly draftedTokens?: number;
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly finishReason: FinishReason | null;
  readonly stopReason: number | string | null;
  /** With a beam search's only output of each sequence; null where tokens are sampled. */
  readonly beam: BeamScore | null;
  /** With the first output of a request's first sequence. */
  readonly prompt: PromptOutput | null;
  /** Device blocks times milliseconds that they were held for it up to now; of beams, all. */
  readonly heldBlockMs: number;
}

export interface PromptOutput {
  readonly cachedTokens: number;
  readonly queueSeconds: number;
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** [tokens, vocabulary] row-major. */
  readonly promptLogits: Float32Array | null;
}

/** A request that was refused or failed. The engine has dropped all its sequences. */
export interface RequestFailure {
  readonly key: RequestKey;
  readonly error: WireError;
}

/** A finished embedding. */
export interface EmbeddingOutput {
  readonly key: RequestKey;
  readonly embedding: Float32Array;
}

/** Results of one step. */
export interface StepOutput {
  readonly outputs: readonly SequenceOutput[];
  readonly embeddings: readonly EmbeddingOutput[];
  readonly failures: readonly RequestFailure[];
  readonly report: StepReport;
}

/** One step's results and statistics, as posted to a client. */
export interface StepMessage extends Omit<StepOutput, "outputs">, PackedOutputs {
  readonly type: "step";
  readonly stats: LoopStats;
}

/** The engine's part of `ModelInfo`; the calling thread adds names and text support. */
export type EngineInfo = Omit<ModelInfo, "name" | "hasTokenizer" | "hasChatTemplate">;

/** Statistics posted with every step. The others are larger, and posted less often. */
export type LoopStats = Omit<EngineStats, "cache" | "stages">;

export interface ReadyMessage {
  readonly type: "ready";
  readonly info: EngineInfo;
  readonly stats: LoopStats;
  /** Time and memory of each part of loading. */
  readonly phases: readonly LoadPhase[];
}

export type FromEngine =
  | ReadyMessage
  | StepMessage
  /** Statistics changed without a step, e.g. a request was aborted while none ran. */
  | { readonly type: "stats"; readonly stats: LoopStats }
  /** All levels of the cache, and stages; precedes the message with the matching statistics. */
  | {
      readonly type: "cacheStats";
      readonly stats: CacheReport;
      readonly stages: EngineStats["stages"];
    }
  | ({ readonly type: "refused" } & RequestFailure)
  /** Cache events since the last such message; never empty. */
  | { readonly type: "kvEvents"; readonly events: readonly NumberedKvEvent[] }
  /** The answer to a message of that name; follows all events that it contains. */
  | { readonly type: "kvSnapshot"; readonly key: RequestKey; readonly snapshot: KvSnapshot }
  /** The answer to `look`. */
  | { readonly type: "looked"; readonly key: RequestKey; readonly look: TimedLook }
  /** The answer to a message of that name. */
  | { readonly type: "forgotten"; readonly key: RequestKey }
  /** The answer to `fill`; where it failed, `refused` is. */
  | { readonly type: "filled"; readonly key: RequestKey; readonly result: KvFillResult }
  /** Blocks that were computed, or kept, for another engine are not held for it any more. */
  | { readonly type: "peerServed"; readonly kvByteSeconds: number }
  /** What the cache held was written to disk; precedes the end of the engine. */
  | { readonly type: "flushed"; readonly report: FlushReport }
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "loading"; readonly progress: LoadProgress }
  /** The engine cannot go on (or could not start). */
  | { readonly type: "dead"; readonly error: WireError }
  | { readonly type: "closed" };

/** A step's outputs, packed for posting. */
export interface PackedOutputs {
  /** [rows, 4] row-major: key, index, token id, `heldBlockMs`; of sequences that go on by one. */
  readonly tokenRows: Float64Array;
  /** All other outputs, first ones of requests included: to be delivered before the rows. */
  readonly outputs: readonly SequenceOutput[];
}
