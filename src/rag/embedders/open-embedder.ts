import { EngineError, requireOptions } from "#base";
import type { Embedder } from "./embedder.ts";
import type { EmbedderOptions } from "./embedder-options.ts";
import { LocalEmbedder } from "./local-embedder.ts";
import { RemoteEmbedder } from "./remote-embedder.ts";

const ADDRESS = /^https?:\/\//i;

/**
 * Opens an embedder: the name of a model that comes with this package, a folder in Hugging Face's
 * layout, a .gguf file, the id of a model that `perigee models pull` has downloaded, or the address
 * of a server with OpenAI's API (`https://host/v1`, with `options.remote`).
 *
 * Queries and documents get the prompts of the model's files (sentence-transformers' `prompts`),
 * or, where the files have none and the model's name is known (E5, BGE, Nomic), those that its
 * authors trained it with; `options.prompts` replaces both.
 *
 * @throws EngineError MODEL_NOT_FOUND, CHECKPOINT_INVALID, UNSUPPORTED_MODEL, TOKENIZER_MISSING,
 *   TOKENIZER_INVALID, INVALID_ARGUMENT, DEVICE_UNAVAILABLE, OUT_OF_MEMORY, NETWORK, UNAUTHORIZED
 */
export async function openEmbedder(what: string, options: EmbedderOptions = {}): Promise<Embedder> {
  requireOptions(options);
  if (ADDRESS.test(what)) {
    const { remote } = options;
    if (remote === undefined) throw namesNoModel();
    return RemoteEmbedder.open(what, { ...options, remote });
  }
  return LocalEmbedder.open(what, { ...options, name: what });
}

function namesNoModel(): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    "Cannot open an embedder: an address needs the name of a model there, it has none; give " +
      "remote.model",
    { param: "remote.model" },
  );
}
