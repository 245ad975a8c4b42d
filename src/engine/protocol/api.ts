import type { MessagePort } from "node:worker_threads";
import type {
  BlockHashAlgorithm,
  CacheAsk,
  KvEventItem,
  KvEventReader,
  KvSnapshot,
  NumberedKvEvent,
  RetentionConfig,
  RetentionOptions,
} from "#kvcache";
import type { PositionLogprobs, SamplingOptions } from "#sampling";
import type { EngineOptions } from "./config.ts";
import type {
  EmbeddingInfo,
  EmbedResult,
  EmbedTextOptions,
  PairScoringInfo,
  ScoreOptions,
  ScoreResult,
} from "./embedding.ts";
import type { KvFillOptions, KvFillResult } from "./kv-fill.ts";
import type { KvSourceOptions } from "./kv-source.ts";
import type { EngineHealth, EngineListener, FinishReason } from "./listener.ts";
import type { SpeculationInfo } from "./speculation-info.ts";
import type { EngineStats } from "./stats.ts";
import type { TimedLook } from "./timed-look.ts";

/** A prompt: text (needs a tokenizer) or token ids. */
export type Prompt = string | TokenPrompt;

/** A prompt of token ids, and what has been generated of it elsewhere. */
export interface TokenPrompt {
  readonly promptTokenIds: readonly number[];
  /**
   * What another engine of the same model generated, an entry for each of the `n` sequences, with
   * the same options and seed: the request goes on from there, with the tokens and the text that
   * the other engine would have made. Results contain what is new. Prompt log-probabilities are not
   * made again. Not for beam search; without effect on embeddings.
   */
  readonly generated?: readonly GeneratedTokens[] | undefined;
  /** An integer: seeds the prompt's sequences where the options have no seed. */
  readonly seed?: number | undefined;
}

/** What has been generated of one sequence. */
export interface GeneratedTokens {
  /** None of them ends the sequence, unless it is `ended`. */
  readonly tokenIds: readonly number[];
  /** It has a finish reason: nothing is generated of it. Default: false. */
  readonly ended?: boolean;
}

/** Sampling options, and options of the request as a whole. */
export interface GenerateOptions extends SamplingOptions {
  /** Cancels the request within one step; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Requests with another salt never share cached blocks. Not empty. */
  readonly cacheSalt?: string | undefined;
  /** How long the request's blocks stay cached, by ranges of its tokens. Default: unspecified. */
  readonly retention?: RetentionOptions | RetentionConfig | undefined;
  /** An integer: smaller ones run first where the scheduler's policy is `priority`. */
  readonly priority?: number | undefined;
  /** An engine of equal model, settings and `kvTransfer` that gives keys and values; or none. */
  readonly kvSource?: KvSourceOptions | undefined;
  /** Tell what it occupies (`kvByteSeconds`), which differs from run to run. Default: false. */
  readonly returnKvByteSeconds?: boolean | undefined;
  /** A name for metrics and results; not in use by another request. Default: a fresh one. */
  readonly requestId?: string | undefined;
}

/** How good a beam is. */
export interface BeamScore {
  /** Log-probability / length ** `lengthPenalty`: what beams are ordered by. */
  readonly score: number;
  /** Sum of its tokens' log-probabilities. */
  readonly logprob: number;
}

/**
 * New tokens and text of one sequence. Concatenated deltas are the completion. A beam search has
 * one delta per sequence, with all of it, when the search is over: before, no beam is final.
 */
export interface CompletionDelta {
  /** Which of the prompt's `n` sequences; of a beam search's, 0 is the best. */
  readonly index: number;
  /** "" where nothing can be shown yet; null without a tokenizer. */
  readonly text: string | null;
  readonly tokenIds: readonly number[];
  /** One per token id, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly finishReason: FinishReason | null;
  /** The stop string or token id that ended it; null for end tokens. */
  readonly stopReason: string | number | null;
  /** null where tokens are sampled. */
  readonly beam: BeamScore | null;
  /** Absent where nothing was drafted. */
  readonly drafts?: DraftUse;
  /** Of a sequence begun elsewhere, once: its text delivered there; null: no tokenizer. */
  readonly earlierText?: string | null;
  /** Bytes of device KV blocks times seconds held so far; shared ones fully, of beams all. */
  readonly kvByteSeconds?: number;
}

/** Drafted tokens that were verified, and those of them that became output. */
export interface DraftUse {
  readonly drafted: number;
  readonly accepted: number;
}

/** Known once the prompt is computed. */
export interface PromptInfo {
  readonly promptTokenIds: readonly number[];
  /** Prompt tokens whose KV was found in the cache. */
  readonly cachedTokens: number;
  /** One per prompt token, null for the first; null when not asked for. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
}

/** What a stream yields: everything new since the last item, for all sequences of one prompt. */
export interface StreamItem extends CompletionDelta {
  readonly prompt: PromptInfo;
}

/** One whole sequence. Fields as in `CompletionDelta`, put together. */
export interface Completion {
  readonly index: number;
  readonly text: string | null;
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** Sum of its tokens' log-probabilities; null unless `logprobs` or beams were asked for. */
  readonly cumulativeLogprob: number | null;
  readonly finishReason: FinishReason;
  readonly stopReason: string | number | null;
  /** Beam search: log-probability / length ** `lengthPenalty`; null where tokens are sampled. */
  readonly score: number | null;
  readonly drafts?: DraftUse;
  readonly kvByteSeconds?: number;
}

/** All completions of one prompt. */
export interface GenerateResult extends PromptInfo {
  readonly requestId: string;
  readonly completions: readonly Completion[];
}

/**
 * A turn of a conversation, under the rules of `POST /v1/chat/completions`; further fields go to
 * the chat template.
 */
export interface ChatMessage {
  /** One of system, developer, user, assistant, tool and function; others are refused. */
  readonly role: "system" | "user" | "assistant" | "tool" | (string & Record<never, never>);
  /** Text, or a list of text parts. Only answers and results of tools may have none. */
  readonly content?: string | readonly unknown[] | null;
  readonly [field: string]: unknown;
}

/** The served model. */
export interface ModelInfo {
  /** The name or path that was asked for. */
  readonly name: string;
  readonly architecture: string;
  readonly kind: "decoder" | "encoder";
  readonly parameters: number;
  readonly vocabularySize: number;
  readonly contextTokensMax: number;
  /** Most positions that a token sees, where all layers have such a limit; null: all of them. */
  readonly attentionWindow: number | null;
  /** By group of layers with blocks of its own: most positions that a token sees; null: all. */
  readonly groupWindows: readonly (number | null)[];
  readonly hiddenSize: number;
  /** How texts become vectors; null: the model has a head for pairs, or unsupported pooling. */
  readonly embedding: EmbeddingInfo | null;
  /** How pairs are scored; null: the model is no cross-encoder. */
  readonly pairScoring: PairScoringInfo | null;
  readonly device: string;
  readonly weightFormat: string;
  readonly kvFormat: string;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly bytesPerBlock: number;
  /**
   * Of weights, arithmetic and KV format: engines of equal ones make the same tokens of a prompt
   * and read each other's blocks. Null: an encoder, which has no blocks.
   */
  readonly fingerprint: string | null;
  /** Where other engines of that fingerprint reach its blocks; null: nowhere. */
  readonly kvAddress: { readonly host: string; readonly port: number } | null;
  /** How tokens are drafted unless a request says otherwise; null: they are not. */
  readonly speculative: SpeculationInfo | null;
  readonly hasTokenizer: boolean;
  readonly hasChatTemplate: boolean;
}

/** Options of a conversation's prompt. */
export interface ChatOptions extends GenerateOptions {
  /** OpenAI-style tool definitions, handed to the chat template. */
  readonly tools?: readonly unknown[] | undefined;
  /** Replaces the model's own template. */
  readonly chatTemplate?: string | undefined;
  /** Extra variables for the template, e.g. `enable_thinking`. */
  readonly templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** Open the assistant's turn. Default: true, unless the final message is continued. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Leave the last message open, for the model to continue. Default: false. */
  readonly continueFinalMessage?: boolean | undefined;
  /** Refuse a conversation that certainly has more tokens. Default: no limit. */
  readonly tokensMax?: number | null | undefined;
}

/** How a text is encoded. */
export interface EncodeTextOptions {
  /** Add the special tokens that the model expects (`<s>`, `[CLS]`); true by default. */
  readonly addSpecialTokens?: boolean | undefined;
  /** Of the request: its text and those of other salts are no help to each other. Default: none. */
  readonly cacheSalt?: string | null | undefined;
  /** Refuse a text that certainly has more tokens, without encoding it. Default: no limit. */
  readonly tokensMax?: number | null | undefined;
  /** Name of the text in error messages; `prompt` by default. */
  readonly param?: string | undefined;
  /** Rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Ids that a model expects around a text, e.g. `[CLS]` and `[SEP]`; none where it needs none. */
export interface TextFrame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** How ids become text. */
export interface DecodeTextOptions {
  /** Leave out special tokens; true by default. */
  readonly skipSpecialTokens?: boolean | undefined;
  /** Rejects with its reason, where decoding may take long. */
  readonly signal?: AbortSignal | undefined;
}

/** The text side of a model. All but short texts are encoded and decoded on other threads. */
export interface TextCodec {
  /** Rejects with PROMPT_TOO_LONG, and with INVALID_ARGUMENT for a text that takes too long. */
  encode(text: string, options?: EncodeTextOptions): Promise<number[]>;
  /** The same for many texts, in order. */
  encodeAll(texts: readonly string[], options?: EncodeTextOptions): Promise<number[][]>;
  /** On the calling thread: for as many ids as a context has. */
  decode(ids: readonly number[], options?: DecodeTextOptions): string;
  /** For any number of ids. */
  decodeLong(ids: readonly number[], options?: DecodeTextOptions): Promise<string>;
  /** The ids that `addSpecialTokens` adds around a text. */
  readonly frame: TextFrame;
  /** The piece that an id stands for, as bytes (a token may be half a character). */
  tokenBytes(id: number): Uint8Array;
  /** The id of the token of exactly that spelling; null: there is none. Absent: unknown. */
  tokenId?(spelling: string): number | null;
}

/**
 * Events of a model's cache, for routers and dashboards. `for await` over it reads the events from
 * the oldest one kept; lost events are reported by an item of their own (`isLost`).
 */
export interface KvEventSource extends AsyncIterable<KvEventItem> {
  /** False where there are no events: no cache, or `eventBufferMax` 0. Readers end at once. */
  readonly enabled: boolean;
  /** The rule by which events name blocks. */
  readonly hashAlgorithm: BlockHashAlgorithm;
  /** Unique for each loaded model: event numbers are valid in one stream only. */
  readonly streamId: string;
  /** Most events kept for readers. */
  readonly bufferMax: number;
  /** The oldest event kept, and the one that comes next. */
  readonly firstId: number;
  readonly nextId: number;
  /**
   * Takes all events that no call has returned before, like TensorRT-LLM's method of that name.
   * Waits for one where there is none: until `timeoutMs` are over (0: not at all; absent: as long
   * as the model lives) or the signal is aborted, then returns []. Events that were dropped before
   * show as a gap in the numbers.
   */
  getLatestEvents(timeoutMs?: number, signal?: AbortSignal): Promise<readonly NumberedKvEvent[]>;
  /** When an event came, in ms since 1970; null: it is not kept any more. */
  timeOf(id: number): number | null;
  /**
   * Follows the events after `afterId`, -1 (the default) for all; any number of readers. Ends with
   * the model. Throws INVALID_ARGUMENT for a number that is still to come.
   */
  read(afterId?: number): KvEventReader;
  /** All blocks that can be found now; continue with `read(snapshot.nextId - 1)`. */
  snapshot(): Promise<KvSnapshot>;
}

/** A connection to a loaded model for another thread: plain data, and a port to be transferred. */
export interface ModelConnection {
  /** The caller's number at the engine, unique there. */
  readonly client: number;
  readonly port: MessagePort;
  /** Where the model's files are. */
  readonly path: string;
  /** Text of a chat template instead of the model's own. */
  readonly template: string | null;
  readonly info: ModelInfo;
  readonly settings: EngineOptions;
}

/** One served model: `LLM` is one, and the server uses the engine only through this interface. */
export interface ServedModel {
  readonly info: ModelInfo;
  readonly codec: TextCodec | null;
  /** The text of the template that conversations with tools are rendered by. Absent: unknown. */
  readonly chatTemplate?: string | null;
  readonly kvEvents: KvEventSource;
  /** Prepares in advance what the first request would otherwise wait for. */
  warmUp?(): void;
  health(): EngineHealth;
  stats(): EngineStats;
  /**
   * How long the engine's current turn has taken, in ms, 0 while it is idle: one that is far too
   * long will not end. Absent where it cannot be measured.
   */
  turnMs?(): number;
  /** Returns a function that removes the listener. */
  listen(listener: EngineListener): () => void;
  generate(
    prompts: Prompt | readonly Prompt[],
    options?: GenerateOptions,
  ): Promise<GenerateResult[]>;
  stream(prompt: Prompt, options?: GenerateOptions): AsyncIterable<StreamItem>;
  /** A stream for each prompt, begun when it is first read. Options are checked once for all. */
  streams(prompts: readonly Prompt[], options?: GenerateOptions): AsyncIterable<StreamItem>[];
  /** Renders and encodes a conversation; feed the result to `generate` or `stream`. */
  chatPrompt(
    messages: readonly ChatMessage[],
    options?: ChatOptions,
  ): Promise<{ readonly promptTokenIds: number[] }>;
  embed(inputs: readonly Prompt[], options?: EmbedTextOptions): Promise<EmbedResult[]>;
  /** Scores a query with each text, or texts one by one. Absent if unsupported. */
  score?(
    queries: string | readonly string[],
    texts: readonly string[],
    options?: ScoreOptions,
  ): Promise<ScoreResult[]>;
  /**
   * How many requests of `n` sequences one caller starts at a time: as many as run at once, and a
   * few more. The others start when one ends, so that the queue keeps room for other callers.
   */
  requestsAtOnce(n: number): number;
  /** What the cache has where, for people: a bounded scan. Absent if unsupported. */
  look?(ask: CacheAsk): Promise<TimedLook>;
  /** Forgets cached blocks, those of running requests apart. Absent if unsupported. */
  forgetCached?(): Promise<void>;
  /** Fetches blocks from another engine for later requests. Absent if unsupported. */
  fill?(fill: KvFillOptions): Promise<KvFillResult>;
  /** Finishes pending requests and refuses new ones. */
  drain(): Promise<void>;
  /** For `LLM.join` on another thread; absent if unsupported. Throws SHUTTING_DOWN, ENGINE_DEAD. */
  connect?(): ModelConnection;
}
