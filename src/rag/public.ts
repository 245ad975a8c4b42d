/**
 * perigee/rag: answers from one's own documents, with sources, on the same engine and its cache.
 *
 * Documents are read, cut into chunks and stored with vectors, in a folder or in Milvus; a question
 * finds chunks by meaning and by words, and a model answers from them.
 *
 *   await using rag = await Rag.open({ store: ".perigee/rag", llm: await LLM.load() });
 *   for await (const event of rag.ingest(["docs"])) console.log(event.type);
 *   for await (const event of rag.ask("How is a block evicted?")) {
 *     if (event.type === "text") process.stdout.write(event.text);
 *   }
 *
 * @module
 */

// Documents in, chunks and answers out.
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
// What makes vectors.
export {
  type Embedder,
  type EmbedderOptions,
  type EmbedderPrompts,
  type EmbedOptions,
  openEmbedder,
  type Reranker,
} from "#rag/embedders";
export {
  type IngestCounts,
  type IngestEvent,
  type IngestOptions,
  type IngestProblem,
  type IngestReport,
  IngestSettings,
} from "#rag/ingest";
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
  type SearchFields,
  type SearchOptions,
  SearchSettings,
} from "#rag/service";
// Where chunks are kept.
export {
  type Comparison,
  type Compound,
  type CorpusInfo,
  type CorpusSpec,
  type Filter,
  type Hit,
  openStore,
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
  type StoredChunk,
} from "#rag/texts";
