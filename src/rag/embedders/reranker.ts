import type { EmbedOptions } from "./embedder.ts";

/** A cross-encoder: reads a query and a text together, and says how well the text answers it. */
export interface Reranker extends AsyncDisposable {
  readonly name: string;
  /** A score from 0 to 1 for each text, in order; larger is better. */
  score(query: string, texts: readonly string[], options?: EmbedOptions): Promise<number[]>;
  close(): Promise<void>;
}
