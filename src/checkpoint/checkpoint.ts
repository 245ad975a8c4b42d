import type { JsonObject } from "./json-text.ts";
import type { NamedIntegers, NamedWeight } from "./named-weight.ts";
import type { SentenceFiles } from "./sentence-files.ts";

/** Inputs of a tokenizer, in the form of Hugging Face's files. */
export interface TokenizerFiles {
  /** The content of tokenizer.json, or its equivalent made from a GGUF's vocabulary. */
  readonly tokenizerJson: JsonObject;
  /** tokenizer_config.json over special_tokens_map.json. Null if there is neither. */
  readonly tokenizerConfig: JsonObject | null;
  /** The Jinja chat template; of several named ones, `default`. Null if there is none. */
  readonly chatTemplate: string | null;
}

/** A model's opened files: plain JSON, and weights that are read on demand. */
export interface Checkpoint {
  /** The directory or file that was opened. */
  readonly path: string;
  readonly format: "safetensors" | "gguf";
  /** config.json, in either of transformers' dialects. Made from the metadata for GGUF. */
  readonly config: JsonObject;
  readonly generationConfig: JsonObject | null;
  /** Weights by transformers' names. */
  readonly tensors: ReadonlyMap<string, NamedWeight>;
  /** Tensors of integers, by the file's names; none of a GGUF. */
  readonly integers: ReadonlyMap<string, NamedIntegers>;
  /**
   * Null: the model works on token ids only. Read on first use, which may throw
   * CHECKPOINT_INVALID; usable after `close()`.
   */
  readonly tokenizer: TokenizerFiles | null;
  /**
   * How the model turns texts into vectors. Null: the format cannot specify it. Read on first use,
   * which may throw CHECKPOINT_INVALID; usable after `close()`.
   */
  readonly sentence: SentenceFiles | null;
  /** Size of the weights as stored. */
  readonly totalBytes: number;
  /** Messages for the user, e.g. of an unusable tokenizer. Sentences. */
  readonly warnings: readonly string[];
  /** Unmaps the files. Views from a weight's `bytes()` are invalid afterwards. */
  close(): void;
}
