/**
 * rag/embedders: vectors of texts, and scores of pairs of them.
 *
 *   embedder.ts   the contract of what makes vectors
 *   reranker.ts   the contract of a second stage behind a search
 *
 * @module
 */
export type { Embedder, EmbedOptions } from "./embedder.ts";
export type { Reranker } from "./reranker.ts";
