/**
 * What crosses between the calling thread and the engine's: plain data, structured-cloneable.
 * Text stays on the calling thread; here are token ids only.
 */
import type { MessagePort } from "node:worker_threads";
import type { ErrorCode } from "#base";
import type { KvSnapshot, NumberedKvEvent, RetentionConfig } from "#kvcache";
import type { PositionLogprobs, SamplingParams, ThinkingMarks } from "#sampling";
import type { GrammarVocabulary } from "#tokenizer";
import type {
  BeamScore,
  CacheReport,
  EngineStats,
  FinishReason,
  ModelInfo,
  StepReport,
} from "./api.ts";
import type { EngineOptions } from "./config.ts";

/**
 * Names one request between the threads. Never used twice, so that late news of a request that was
 * given up cannot reach another one, whatever ids the callers choose.
 */
export type RequestKey = number;

/** Client c takes its keys from c times this on: no two clients of an engine share a key. */
const KEYS_PER_CLIENT = 2 ** 40;

/** The client that loaded the model. Clients that came later have higher numbers. */
export const FIRST_CLIENT = 0;

/** The first key of a client's own. */
export function firstKeyOf(client: number): RequestKey {
  return client * KEYS_PER_CLIENT + 1;
}

/** Whose request it is. */
export function clientOf(key: RequestKey): number {
  return Math.floor(key / KEYS_PER_CLIENT);
}

/** One prompt to be continued, with everything resolved. */
export interface EngineRequest {
  readonly key: RequestKey;
  /** The caller's name for it. */
  readonly requestId: string;
  readonly promptTokenIds: readonly number[];
  readonly params: SamplingParams;
  /** Sequence i draws with seed + i. */
  readonly seed: bigint;
  readonly cacheSalt: string | null;
  /** How long its blocks stay cached; null: it does not say. */
  readonly retention: RetentionConfig | null;
  readonly priority: number;
  /** Every tokenisation of each bad word. */
  readonly badWordTokenIds: readonly (readonly number[])[];
  /** Marks of the model's thoughts, where they are to be limited. */
  readonly thinking: ThinkingMarks | null;
  /** Hand back the logits of every prompt token. */
  readonly promptLogits: boolean;
}

/** One prompt whose last hidden states are wanted. */
export interface EmbedRequest {
  readonly key: RequestKey;
  readonly promptTokenIds: readonly number[];
}

export interface LoadMessage {
  readonly type: "load";
  readonly path: string;
  readonly options: EngineOptions;
}

/** How far a part of loading is that takes long. */
export interface LoadProgress {
  /**
   * `kernels`: files of GPU kernels that were not compiled before; `weights`: bytes of the
   * checkpoint; `graphs`: sizes of steps that a GPU shall replay.
   */
  readonly part: "kernels" | "weights" | "graphs";
  readonly done: number;
  readonly total: number;
}

/**
 * Parts of loading, in their order: `device` with its kernels, `steps` with the largest ones run
 * once, `cache` with all its levels.
 */
export type LoadPhaseName = "files" | "device" | "weights" | "steps" | "cache" | "graphs";

/** What one part of loading took. */
export interface LoadPhase {
  readonly name: LoadPhaseName;
  readonly seconds: number;
  /** Memory of the GPU; 0 on other devices. */
  readonly bytes: number;
}

export type ToEngine =
  | LoadMessage
  /** Comes before the first request with structured output. */
  | { readonly type: "vocabulary"; readonly vocabulary: GrammarVocabulary }
  | { readonly type: "add"; readonly request: EngineRequest }
  | { readonly type: "embed"; readonly request: EmbedRequest }
  /** `index`: one sequence of the request; absent: all. */
  | { readonly type: "abort"; readonly key: RequestKey; readonly index?: number }
  /** Its reader is behind, or reads on: nothing is computed for it in between. */
  | { readonly type: "pause"; readonly key: RequestKey }
  | { readonly type: "resume"; readonly key: RequestKey }
  /** All that the cache holds, wanted by a reader of its events. */
  | { readonly type: "kvSnapshot"; readonly key: RequestKey }
  /** What another client than the first wants whoever runs the engine to know. */
  | { readonly type: "warn"; readonly message: string }
  /** One more client, on a thread of its own: `port`, which is handed over, is the way to it. */
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
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly finishReason: FinishReason | null;
  readonly stopReason: number | string | null;
  /** With a beam search's only output of each sequence; null where tokens are drawn. */
  readonly beam: BeamScore | null;
  /** With the first output of a request's first sequence. */
  readonly prompt: PromptOutput | null;
}

export interface PromptOutput {
  readonly cachedTokens: number;
  readonly queueSeconds: number;
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** [tokens, vocabulary] row-major. */
  readonly promptLogits: Float32Array | null;
}

/** A request that was refused or went wrong. The engine has forgotten all its sequences. */
export interface RequestFailure {
  readonly key: RequestKey;
  readonly error: WireError;
}

/** A finished embedding. */
export interface EmbeddingOutput {
  readonly key: RequestKey;
  readonly embedding: Float32Array;
}

/** What one step brought. */
export interface StepOutput {
  readonly outputs: readonly SequenceOutput[];
  readonly embeddings: readonly EmbeddingOutput[];
  readonly failures: readonly RequestFailure[];
  readonly report: StepReport;
}

/** One step's news and books, as they cross. */
export interface StepMessage extends Omit<StepOutput, "outputs">, PackedOutputs {
  readonly type: "step";
  readonly stats: StepStats;
}

/** What the engine knows of a model; names and texts are the calling thread's. */
export type EngineInfo = Omit<ModelInfo, "name" | "hasTokenizer" | "hasChatTemplate">;

/** What crosses with every step. The report of the cache is larger, and crosses when it matters. */
export type StepStats = Omit<EngineStats, "cache">;

export interface ReadyMessage {
  readonly type: "ready";
  readonly info: EngineInfo;
  readonly stats: StepStats;
  /** How the model was loaded. */
  readonly phases: readonly LoadPhase[];
}

export type FromEngine =
  | ReadyMessage
  | StepMessage
  /** The books changed without a step: a request was given up while none ran. */
  | { readonly type: "stats"; readonly stats: StepStats }
  /** All levels of the cache; comes before the message whose books it belongs to. */
  | { readonly type: "cacheReport"; readonly report: CacheReport }
  | ({ readonly type: "refused" } & RequestFailure)
  /** What the cache told since the last such message; never empty. */
  | { readonly type: "kvEvents"; readonly events: readonly NumberedKvEvent[] }
  /** The answer to a message of that name; comes after all events that it contains. */
  | { readonly type: "kvSnapshot"; readonly key: RequestKey; readonly snapshot: KvSnapshot }
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "loading"; readonly progress: LoadProgress }
  /** The engine cannot go on (or could not start). */
  | { readonly type: "dead"; readonly error: WireError }
  | { readonly type: "closed" };

/** A step's outputs, as they cross. */
export interface PackedOutputs {
  /** [rows, 3] row-major: key, index, token id; of sequences that bring one token and go on. */
  readonly tokenRows: Float64Array;
  /** All the others, and the first ones of their requests: to be delivered before the rows. */
  readonly outputs: readonly SequenceOutput[];
}
