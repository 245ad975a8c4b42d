import { existsSync } from "node:fs";
import { bundledPath } from "./bundled-path.ts";
import type { Embedder } from "./embedder.ts";
import type { EmbedderOptions } from "./embedder-options.ts";
import { LocalEmbedder } from "./local-embedder.ts";

/**
 * Opens an embedder: the name of a model that comes with this package, a folder in Hugging Face's
 * layout, a .gguf file, or the id of a model that `perigee models pull` has downloaded.
 *
 * Queries and documents get the prompts of the model's files (sentence-transformers' `prompts`),
 * or, where the files have none and the model's name is known (E5, BGE, Nomic), those that its
 * authors trained it with; `options.prompts` replaces both.
 *
 * @throws EngineError MODEL_NOT_FOUND, CHECKPOINT_INVALID, UNSUPPORTED_MODEL, TOKENIZER_MISSING,
 *   TOKENIZER_INVALID, INVALID_ARGUMENT, DEVICE_UNAVAILABLE, OUT_OF_MEMORY
 */
export function openEmbedder(what: string, options: EmbedderOptions = {}): Promise<Embedder> {
  const path = (existsSync(what) ? null : bundledPath(what)) ?? what;
  return LocalEmbedder.open(path, { ...options, name: what });
}
