/**
 * rag/service: documents, searches and answers behind one class.
 *
 *   rag.ts         `Rag`: what a program or a server uses
 *   retriever.ts   chunks for a query, and which of them fit
 *   config.ts      how is searched
 *
 * @module
 */
export { type SearchFields, SearchSettings } from "./config.ts";
export {
  type AskOptions,
  type CallOptions,
  CORPUS_DEFAULT,
  EMBEDDER_DEFAULT,
  Rag,
  type RagIngestOptions,
  type RagOptions,
  type RagStatus,
  type SearchOptions,
} from "./rag.ts";
export type { FoundChunk } from "./retriever.ts";
