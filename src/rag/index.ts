/**
 * rag: answers from one's own documents, on the same engine and its cache.
 *
 * Files are read and cut into chunks, chunks get vectors and are stored; a question finds chunks by
 * meaning and by words, and a model answers from them with citations.
 *
 * Rooms, each with its own index.ts, lowest first:
 *
 *   texts/       documents, sections and chunks as plain data
 *   stores/      where chunks are kept and searched: Milvus, or a folder
 *   readers/     files, folders and addresses become documents
 *   chunks/      documents in parts that an embedder takes whole
 *   embedders/   vectors of texts, scores of pairs
 *   ingest/      documents become stored chunks: batches, resumption, what changed
 *   answering/   the prompt that the cache serves, citations, follow-up questions
 *   service/     all of it behind one class, `Rag`
 *   http/        OpenAI's files, vector stores and `file_search`, served
 *
 * Invariant: a store, an embedder and a reader are known by their contracts alone.
 *
 * @module
 */
export {
  type Answer,
  type AskEvent,
  type AskFields,
  AskSettings,
  type AskUsage,
  type Citation,
  type Refusal,
  type Source,
  type Support,
  type Turn,
} from "#rag/answering";
export { passageOf } from "#rag/chunks";
export {
  type Embedder,
  type EmbedderOptions,
  type EmbedderPrompts,
  type EmbedOptions,
  LocalEmbedder,
  LocalReranker,
  openEmbedder,
  RemoteEmbedder,
  type RemoteOptions,
  type Reranker,
} from "#rag/embedders";
export { RagExtension, type RagExtensionParts, type RagLimits, RagServing } from "#rag/http";
export {
  type AddressOptions,
  type IngestCounts,
  type IngestEvent,
  type IngestOptions,
  type IngestProblem,
  type IngestReport,
  IngestSettings,
  ingest,
  watch,
} from "#rag/ingest";
export type { FileContent, Reader, ReadProblem } from "#rag/readers";
export {
  type AskOptions,
  type CallOptions,
  CORPUS_DEFAULT,
  EMBEDDER_DEFAULT,
  type FoundChunk,
  Rag,
  type RagIngestOptions,
  type RagOptions,
  type RagStatus,
  type SearchOptions,
  SearchSettings,
} from "#rag/service";
export {
  type Comparison,
  type Compound,
  type CorpusInfo,
  type CorpusSpec,
  type Filter,
  type Hit,
  openStore,
  passes,
  type StoredDocument,
  type StoreInfo,
  type StoreOptions,
  type StoreQuery,
  type VectorStore,
} from "#rag/stores";
export {
  type Attributes,
  type Chunk,
  type ChunkPlace,
  chunkId,
  type Section,
  type SourceDocument,
  type StoredChunk,
} from "#rag/texts";
