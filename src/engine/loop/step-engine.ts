import type { EmbedRequest, LoopStats, RequestKey, StepOutput } from "#engine/protocol";

/** What all engines do: they embed texts, step by step. `Engine` also generates. */
export interface StepEngine {
  /** Keys of requests that may still be aborted. */
  readonly keys: readonly RequestKey[];
  /** Queues a text to embed, or throws PROMPT_TOO_LONG or QUEUE_FULL. */
  addEmbedding(request: EmbedRequest): void;
  /** Aborts a request; with `index` only that sequence of it. An unknown key: no effect. */
  abort(key: RequestKey, index?: number): void;
  /**
   * Completes one step; null: there is no work and no failure to report. A failing step ends its
   * requests; a rejection means that no step may follow.
   */
  step(): Promise<StepOutput | null>;
  stats(): LoopStats;
  /** Ends all requests. Not while `step` runs. */
  dispose(): Promise<void>;
}
