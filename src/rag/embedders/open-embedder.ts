import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { bundledModel } from "#engine";
import type { Embedder } from "./embedder.ts";
import type { EmbedderOptions } from "./embedder-options.ts";
import { LocalEmbedder } from "./local-embedder.ts";

/** A name of a model that comes with the package: a single word, no path. */
const BUNDLED_NAME = /^[a-z0-9][a-z0-9-]*$/;

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
  const bundled = bundledPath(what);
  const name = bundled === null ? what : basename(bundled);
  return LocalEmbedder.open(bundled ?? what, { ...options, name });
}

/** The folder of a bundled model; null: there is none of that name. */
function bundledPath(what: string): string | null {
  if (!BUNDLED_NAME.test(what) || existsSync(what)) return null;
  const folder = join(dirname(bundledModel), what);
  return existsSync(join(folder, "config.json")) ? folder : null;
}
