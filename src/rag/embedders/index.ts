/**
 * rag/embedders: vectors of texts, and scores of pairs of them.
 *
 *   embedder.ts           the contract of what makes vectors
 *   reranker.ts           the contract of a second stage behind a search
 *   open-embedder.ts      a name, a folder or a hub's id to an embedder
 *   embedder-options.ts   how it is opened
 *   local-embedder.ts     an embedder of a model in this process
 *   remote-embedder.ts    an embedder behind an address: remote-options.ts how it is asked,
 *                         remote-call.ts one request, remote-vectors.ts its answer
 *   token-count.ts        tokens of texts of any length
 *   local-reranker.ts     a cross-encoder in this process
 *   known-prompts.ts      prompts that go with a model's name
 *   unit-vector.ts        the first elements of a vector, of length 1
 *
 * @module
 */
export type { Embedder, EmbedOptions } from "./embedder.ts";
export type { EmbedderOptions, EmbedderPrompts } from "./embedder-options.ts";
export { LocalEmbedder } from "./local-embedder.ts";
export { LocalReranker } from "./local-reranker.ts";
export { openEmbedder } from "./open-embedder.ts";
export { RemoteEmbedder } from "./remote-embedder.ts";
export type { RemoteOptions } from "./remote-options.ts";
export type { Reranker } from "./reranker.ts";
