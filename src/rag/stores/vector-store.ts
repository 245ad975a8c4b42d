/** What every store of chunks promises. All stores pass one suite: test/rag/stores/contract.ts. */
import type { Chunk, StoredChunk } from "#rag/texts";
import type { Filter } from "./filter.ts";

/** What a corpus is made with; it holds for as long as the corpus exists. */
export interface CorpusSpec {
  /** Letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  /** Elements of its vectors. */
  readonly dimensions: number;
  /** `Embedder.fingerprint`: vectors of another embedder mean something else. */
  readonly embedder: string;
}

/** A corpus, and how much is in it. */
export interface CorpusInfo extends CorpusSpec {
  readonly documents: number;
  readonly chunks: number;
}

/** A document of which a corpus has chunks. */
export interface StoredDocument {
  readonly id: string;
  /** Of its chunks; empty where they have different ones, since an update of it was interrupted. */
  readonly hash: string;
  readonly chunks: number;
}

/** What is searched for: by vector, by text (BM25), or by both (hybrid). */
export interface StoreQuery {
  /** [dimensions], of length 1; null: the text's words alone decide. */
  readonly vector: Float32Array | null;
  /** Null: the vector alone decides. */
  readonly text: string | null;
  /** Most results: 1 to 1,000. */
  readonly limit: number;
  /** Null: all chunks. */
  readonly filter: Filter | null;
}

/** A chunk that was found. */
export interface Hit {
  readonly chunk: Chunk;
  /**
   * Larger is better; comparable within one search alone. By vector the cosine; by text BM25, of
   * chunks that have at least one of the words; by both the sum of 1 / (60 + rank) over the two
   * lists, each as long as `listLength` says (reciprocal rank fusion).
   */
  readonly score: number;
}

/** What a store is, and which of its features the server behind it has. */
export interface StoreInfo {
  readonly kind: string;
  /** The server's address, or the folder. */
  readonly location: string;
  /** Of the server or the file format. */
  readonly version: string;
  /** Where words are searched: by the server's own function, or by an index of ours. */
  readonly text: "server" | "own";
  /** What the server lacks and how it is made up for, a sentence each. */
  readonly notes: readonly string[];
}

/**
 * Corpora of chunks with vectors. Errors of all methods: STORE_UNAVAILABLE (the server cannot be
 * reached, refuses or is full; the folder cannot be used), CORPUS_INVALID (there is no such corpus,
 * or it is of another embedder, dimension or schema), INVALID_ARGUMENT. After one nothing is lost
 * that an earlier call stored, and the same call may be made again.
 */
export interface VectorStore extends AsyncDisposable {
  readonly info: StoreInfo;
  /** Makes the corpus unless there is one of the same spec. */
  create(corpus: CorpusSpec): Promise<void>;
  /** All corpora, by name. */
  corpora(): Promise<CorpusInfo[]>;
  /** Null: there is none of this name. */
  corpus(name: string): Promise<CorpusInfo | null>;
  /** Removes the corpus and all of its chunks; without effect where there is none. */
  drop(name: string): Promise<void>;
  /**
   * Stores chunks; one of the same id is replaced. They are found, and durable, once the promise
   * resolves. A folder takes all of them or none; a server takes them in batches, in order.
   */
  upsert(corpus: string, chunks: readonly StoredChunk[]): Promise<void>;
  /** Removes a document's chunks but those with the given ids; tells how many were removed. */
  deleteDocument(corpus: string, documentId: string, keep?: ReadonlySet<string>): Promise<number>;
  /** How many chunks pass the filter; null: all. */
  count(corpus: string, filter: Filter | null): Promise<number>;
  /** Best first; ties by id. As many as pass the filter and fit the limit. */
  search(corpus: string, query: StoreQuery): Promise<Hit[]>;
  /** All documents of a corpus, by id. */
  documents(corpus: string): Promise<StoredDocument[]>;
  /** A document's chunks by index; none where it is not stored. */
  chunksOf(corpus: string, documentId: string): Promise<Chunk[]>;
  /** Makes what was stored durable and closes connections and files. May be called repeatedly. */
  close(): Promise<void>;
}
