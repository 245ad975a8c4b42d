/** Vectors of texts, as a model's callers see them. */

/** How a model makes vectors of texts. */
export interface EmbeddingInfo {
  /** Pooling modes, by sentence-transformers' names; the results of several are joined. */
  readonly pooling: readonly string[];
  /** Vectors have length 1. */
  readonly normalized: boolean;
  /** Elements of a vector. */
  readonly dimensions: number;
  /** Most tokens of a text, special ones included. */
  readonly tokensMax: number;
  /** Whether the model's folder specifies all this; false: mean pooling is a guess. */
  readonly declared: boolean;
  /** What to put before texts, by the names that the model's folder gives them. */
  readonly prompts: Readonly<Record<string, string>>;
  /** The prompt that sentence-transformers uses where none is named; null: none. */
  readonly defaultPrompt: string | null;
  /** Whether a prompt's tokens are pooled with those of the text. */
  readonly promptPooled: boolean;
}

/** How a model scores pairs of texts: a cross-encoder reads both together. */
export interface PairScoringInfo {
  /** `sigmoid`: scores are from 0 to 1; `none`: any numbers. */
  readonly activation: "sigmoid" | "none";
  /** Most tokens of a pair, special ones included; of longer pairs the longer text is cut. */
  readonly tokensMax: number;
}

/** How pairs are scored. */
export interface ScoreOptions {
  /** Rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** A pair's tokens at most, special ones included. Default: the model's. */
  readonly tokensMax?: number | undefined;
  /** A cross-encoder's output as it is, without its activation. Default: false. */
  readonly raw?: boolean | undefined;
}

/** How well two texts go together; larger is better. */
export interface ScoreResult {
  readonly score: number;
  /** Tokens that were computed for it. */
  readonly tokens: number;
}

/** How texts are embedded. */
export interface EmbedTextOptions {
  /** Rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** One of `EmbeddingInfo.prompts`, put before each text. Default: none is. */
  readonly promptName?: string | undefined;
  /** Words to put before each text instead. Token ids stay as they are. */
  readonly prompt?: string | undefined;
  /**
   * Cut longer texts off instead of refusing them: at `EmbeddingInfo.tokensMax`, or at so many
   * tokens if that is less. Default: false.
   */
  readonly truncate?: boolean | number | undefined;
}

/** One input's vector. */
export interface EmbedResult {
  /** [`ModelInfo.embedding.dimensions`]. */
  readonly embedding: Float32Array;
  readonly promptTokenIds: readonly number[];
}
