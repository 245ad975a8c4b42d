/**
 * rag/stores: where chunks and their vectors are kept.
 *
 *   vector-store.ts      the contract that all stores have
 *   open-store.ts        the store behind an address or a path
 *   filter.ts            filters over attributes, and their definition
 *   argument-checks.ts   what stores are given, checked once for all of them
 *   corpus-errors.ts     what is told about corpora that are missing or of something else
 *   ranking.ts           orders of results, and the fusion of two
 *   words.ts             words of texts, for indexes of ours
 *
 * In a folder of this machine, by a thread of its own:
 *
 *   folder-store.ts      the store: calls its thread, and starts another one when it ended
 *   folder-lock.ts       one process at a time
 *   folder-protocol.ts   messages between the two
 *   folder-thread.ts     answers calls in order, and does between them what can wait
 *   folder-corpora.ts    corpora as folders: made, opened, removed
 *   folder-corpus.ts     one of them: what is written in which order, what is searched
 *   chunk-table.ts       chunks as rows of SQLite, in transactions
 *   word-index.ts        BM25 by SQLite's FTS5
 *   first-row.ts         one row of a statement, which ends there
 *   vector-file.ts       vectors as rows of a file
 *   vector-search.ts     exact among few vectors, by an index among many
 *   vector-index.ts      usearch's graph
 *   row-states.ts        what rows are used for
 *   folder-errors.ts     failures of files as errors with a remedy
 *
 * In Milvus, by its official client:
 *
 *   milvus-store.ts      the store: what is sent, what is asked
 *   milvus-address.ts    addresses, and what they may say
 *   milvus-client.ts     the connection: answers checked, what the server can do
 *   milvus-corpora.ts    corpora as partitions of collections
 *   milvus-schema.ts     a collection's fields and indexes: made, and compared
 *   milvus-rows.ts       chunks as rows
 *   milvus-filter.ts     filters as expressions
 *   milvus-words.ts      how rare words are, for servers without BM25
 *   milvus-errors.ts     what a server says as errors with a remedy
 *   milvus-notes.ts      what a server lacks
 *
 * Invariant: a corpus in a folder has what SQLite's last transaction committed. Vectors are written
 * before it, and their index is derived.
 *
 * @module
 */
export { type Comparison, type Compound, type Filter, passes } from "./filter.ts";
export { FolderLock } from "./folder-lock.ts";
export { openStore, type StoreOptions } from "./open-store.ts";
export { fuse, listLength, type Ranked } from "./ranking.ts";
export type {
  CorpusInfo,
  CorpusSpec,
  Hit,
  StoredDocument,
  StoreInfo,
  StoreQuery,
  VectorStore,
} from "./vector-store.ts";
export { wordsOf } from "./words.ts";
