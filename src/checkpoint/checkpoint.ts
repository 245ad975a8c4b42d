import type { JsonObject } from "./json-text.ts";
import type { NamedWeight } from "./named-weight.ts";
import type { SentenceFiles } from "./sentence-files.ts";

/** What a tokenizer is made from, as Hugging Face's files hold it. */
export interface TokenizerFiles {
  /** The content of tokenizer.json, or its equal made from a GGUF's vocabulary. */
  readonly tokenizerJson: JsonObject;
  /** tokenizer_config.json over special_tokens_map.json. Null if there is neither. */
  readonly tokenizerConfig: JsonObject | null;
  /** The Jinja chat template; of several named ones, `default`. Null if there is none. */
  readonly chatTemplate: string | null;
}

/** A model's files, opened: plain JSON, and weights that are read when asked for. */
export interface Checkpoint {
  /** The directory or file that was opened. */
  readonly path: string;
  readonly format: "safetensors" | "gguf";
  /** config.json, in either of transformers' dialects. Made from the metadata for GGUF. */
  readonly config: JsonObject;
  readonly generationConfig: JsonObject | null;
  /** By transformers' names. */
  readonly tensors: ReadonlyMap<string, NamedWeight>;
  /**
   * Null: the model works on token ids only. Read on first use, which may throw
   * CHECKPOINT_INVALID; usable after `close()`.
   */
  readonly tokenizer: TokenizerFiles | null;
  /**
   * How the model makes vectors of texts. Null: the format has no word for it. Read on first use,
   * which may throw CHECKPOINT_INVALID; usable after `close()`.
   */
  readonly sentence: SentenceFiles | null;
  /** Size of the weights as stored. */
  readonly totalBytes: number;
  /** What a user should know, e.g. a tokenizer that cannot be used. Sentences. */
  readonly warnings: readonly string[];
  /** Unmaps the files. Every view that a weight's `bytes()` returned is dead afterwards. */
  close(): void;
}
