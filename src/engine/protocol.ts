/**
 * What crosses between the calling thread and the engine's: plain data, structured-cloneable.
 * Text stays on the calling thread; here are token ids only.
 */
import type { ErrorCode } from "#base";
import type { PositionLogprobs, SamplingParams } from "#sampling";
import type { GrammarVocabulary } from "#tokenizer";
import type { EngineStats, FinishReason, ModelInfo, StepReport } from "./api.ts";
import type { EngineOptions } from "./config.ts";

/** One prompt to be continued, with everything resolved. */
export interface EngineRequest {
  readonly requestId: string;
  readonly promptTokenIds: readonly number[];
  readonly params: SamplingParams;
  /** Sequence i draws with seed + i. */
  readonly seed: bigint;
  readonly cacheSalt: string | null;
  readonly priority: number;
  /** Every tokenisation of each bad word. */
  readonly badWordTokenIds: readonly (readonly number[])[];
  /** Hand back the logits of every prompt token. */
  readonly promptLogits: boolean;
}

export interface LoadMessage {
  readonly type: "load";
  readonly path: string;
  readonly name: string;
  readonly options: EngineOptions;
  /** For structured output; null without a tokenizer. */
  readonly vocabulary: GrammarVocabulary | null;
}

export type ToEngine =
  | LoadMessage
  | { readonly type: "add"; readonly request: EngineRequest }
  | {
      readonly type: "embed";
      readonly requestId: string;
      readonly promptTokenIds: readonly number[];
    }
  /** `index`: one sequence of the request; absent: all. */
  | { readonly type: "abort"; readonly requestId: string; readonly index?: number }
  | { readonly type: "close" };

export interface WireError {
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly param: string | null;
}

/** New tokens of one sequence after one step. */
export interface SequenceOutput {
  readonly requestId: string;
  readonly index: number;
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly finishReason: FinishReason | null;
  readonly stopReason: number | string | null;
  /** Why it ended with `error`. */
  readonly error: WireError | null;
  /** With the first output of a request. */
  readonly prompt: PromptOutput | null;
}

export interface PromptOutput {
  readonly cachedTokens: number;
  readonly queueSeconds: number;
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** [tokens, vocabulary] row-major. */
  readonly promptLogits: Float32Array | null;
}

export type FromEngine =
  | {
      readonly type: "ready";
      readonly info: Omit<ModelInfo, "name" | "hasTokenizer" | "hasChatTemplate">;
      readonly eosTokenIds: readonly number[];
      readonly stats: EngineStats;
    }
  | {
      readonly type: "step";
      readonly outputs: readonly SequenceOutput[];
      readonly report: StepReport;
      readonly stats: EngineStats;
    }
  /** The books while nothing runs. */
  | { readonly type: "stats"; readonly stats: EngineStats }
  | { readonly type: "embedding"; readonly requestId: string; readonly embedding: Float32Array }
  /** One request was refused or its embedding failed. */
  | { readonly type: "refused"; readonly requestId: string; readonly error: WireError }
  | { readonly type: "warning"; readonly message: string }
  /** The engine cannot go on (or could not start). */
  | { readonly type: "dead"; readonly error: WireError }
  | { readonly type: "closed" };
