import type { EngineError } from "#base";
import type { EngineStats, FlushReport } from "./stats.ts";

/** Why a sequence ended: by itself, at its limit of tokens, cancelled, or by a failure. */
export type FinishReason = "stop" | "length" | "abort" | "error";

/** One finished step, for histograms. */
export interface StepReport {
  /** Tokens that the step computed, and sequences that it advanced. */
  readonly stepTokens: number;
  readonly sequences: number;
  /** The whole step up to the sampled tokens; its planning and committing. */
  readonly seconds: number;
  readonly planSeconds: number;
}

/** Times of one finished request, in seconds, from the engine's clock. */
export interface RequestTimes {
  readonly queueSeconds: number;
  readonly prefillSeconds: number;
  readonly decodeSeconds: number;
  readonly endToEndSeconds: number;
}

/** Takes work; finishes pending requests and takes no more; or is gone, with the reason. */
export type EngineHealth =
  | { readonly state: "ready" }
  | { readonly state: "draining" }
  | { readonly state: "dead"; readonly reason: string };

/** Events for metrics. */
export interface EngineListener {
  onStep?(report: StepReport, stats: EngineStats): void;
  onFirstToken?(requestId: string, seconds: number): void;
  onTokens?(requestId: string, count: number, secondsSinceLast: number): void;
  onRequestEnd?(times: RequestTimes, result: RequestSummary): void;
  /** Blocks were held for another engine: bytes of the device times seconds. */
  onPeerServed?(kvByteSeconds: number): void;
  /** The model was closed, and what its cache held was written to disk before its end. */
  onFlushed?(report: FlushReport): void;
  /** The engine cannot go on; all pending requests have already failed. */
  onDead?(error: EngineError): void;
}

/** Sizes and results of one finished request; generated tokens of all its sequences together. */
export interface RequestSummary {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly finishReasons: readonly FinishReason[];
  readonly n: number;
  readonly maxTokens: number | null;
  /** Bytes of the device's blocks times seconds that they were held, up to its last token. */
  readonly kvByteSeconds: number;
}
