/** What makes vectors of texts. */

/** How a call may be cancelled. */
export interface EmbedOptions {
  /** Rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes vectors of length 1 whose cosine says how near texts are in meaning. Queries and documents
 * may be embedded in different ways (prompts of sentence-transformers).
 */
export interface Embedder extends AsyncDisposable {
  /** As it was asked for: a model's name or path, or an address. */
  readonly name: string;
  /** Of weights, pooling, prompts and limits: equal ones make comparable vectors. */
  readonly fingerprint: string;
  readonly dimensions: number;
  /** Most tokens of a text, special tokens and the prompt of documents included. */
  readonly tokensMax: number;
  /** Tokens of texts as `embedDocuments` would embed them, with special tokens and prompt. */
  countTokens(texts: readonly string[], options?: EmbedOptions): Promise<number[]>;
  /** A vector for each, in order. Longer texts are cut off at `tokensMax`. */
  embedQueries(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
  /** A vector for each, in order. Longer texts are cut off at `tokensMax`. */
  embedDocuments(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
  close(): Promise<void>;
}
