/** What is told about corpora that are missing or of something else, by all stores alike. */
import { EngineError, shortText } from "#base";
import type { CorpusSpec } from "./vector-store.ts";

/** There is no corpus of this name. */
export function unknownCorpus(name: string): EngineError {
  return new EngineError(
    "CORPUS_INVALID",
    `Cannot use the corpus ${name}: it must exist, current value is none; create it first`,
    { param: "corpus" },
  );
}

/** Throws CORPUS_INVALID unless the stored corpus is the wanted one. */
export function sameCorpus(stored: CorpusSpec, wanted: CorpusSpec): void {
  for (const field of ["dimensions", "embedder"] as const) {
    if (stored[field] === wanted[field]) continue;
    throw new EngineError(
      "CORPUS_INVALID",
      `Cannot use the corpus ${wanted.name}: its ${field} must be ` +
        `${shortText(String(wanted[field]))}, current value is ` +
        `${shortText(String(stored[field]))}; use the embedder that it was made with, another ` +
        "name, or remove the corpus and ingest again",
      { param: "corpus" },
    );
  }
}

/** A call after `close`. */
export function closedStore(): EngineError {
  const message = "Cannot use the store: it must be open, current value is closed; open it again";
  return new EngineError("STORE_UNAVAILABLE", message);
}
