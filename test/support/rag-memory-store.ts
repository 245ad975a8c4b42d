import type { Chunk, CorpusInfo, CorpusSpec, Hit, StoredChunk, StoredDocument } from "#rag";
import { type Filter, passes, type StoreQuery, type VectorStore } from "#rag";

/** A call of a store, before it is carried out; what it throws is the call's error. */
export type StoreHook = (method: string, detail: unknown) => void | Promise<void>;

/**
 * The plainest store: maps, and every vector compared. As of a document of which chunks of several
 * versions are there, `documents` tells the version of the last one stored, unless `tellsFirst`.
 */
export class MemoryStore implements VectorStore {
  readonly info = {
    ...{ kind: "memory", location: "this process", version: "1" },
    ...{ text: "own" as const, notes: [] },
  };
  readonly #corpora = new Map<string, { spec: CorpusSpec; chunks: Map<string, StoredChunk> }>();
  readonly #hook: StoreHook;
  /** Of mixed documents, `documents` tells the version of the chunk that was stored first. */
  tellsFirst = false;

  constructor(hook: StoreHook = () => {}) {
    this.#hook = hook;
  }

  async create(spec: CorpusSpec): Promise<void> {
    await this.#hook("create", spec);
    if (!this.#corpora.has(spec.name)) this.#corpora.set(spec.name, { spec, chunks: new Map() });
  }

  async corpora(): Promise<CorpusInfo[]> {
    const names = [...this.#corpora.keys()].sort();
    const all = await Promise.all(names.map((name) => this.corpus(name)));
    return all.filter((info) => info !== null);
  }

  async corpus(name: string): Promise<CorpusInfo | null> {
    const found = this.#corpora.get(name);
    if (found === undefined) return null;
    const documents = (await this.documents(name)).length;
    return { ...found.spec, documents, chunks: found.chunks.size };
  }

  async drop(name: string): Promise<void> {
    this.#corpora.delete(name);
  }

  async upsert(corpus: string, chunks: readonly StoredChunk[]): Promise<void> {
    await this.#hook("upsert", chunks);
    const stored = this.#chunks(corpus);
    for (const chunk of chunks) {
      stored.delete(chunk.id);
      stored.set(chunk.id, chunk);
    }
  }

  async deleteDocument(
    corpus: string,
    documentId: string,
    keep: ReadonlySet<string> = new Set(),
  ): Promise<number> {
    await this.#hook("deleteDocument", documentId);
    const stored = this.#chunks(corpus);
    const gone = [...stored.values()].filter(
      (chunk) => chunk.documentId === documentId && !keep.has(chunk.id),
    );
    for (const { id } of gone) stored.delete(id);
    return gone.length;
  }

  async search(corpus: string, { vector, limit, filter }: StoreQuery): Promise<Hit[]> {
    await this.#hook("search", null);
    return [...this.#chunks(corpus).values()]
      .filter(({ attributes }) => filter === null || passes(filter, attributes))
      .map((chunk) => ({ chunk, score: vector === null ? 0 : dot(vector, chunk.vector) }))
      .sort((one, other) => other.score - one.score || (one.chunk.id < other.chunk.id ? -1 : 1))
      .slice(0, limit);
  }

  async count(corpus: string, filter: Filter | null): Promise<number> {
    await this.#hook("count", corpus);
    const found = [...this.#chunks(corpus).values()];
    return found.filter((chunk) => filter === null || passes(filter, chunk.attributes)).length;
  }

  async documents(corpus: string): Promise<StoredDocument[]> {
    await this.#hook("documents", corpus);
    const found = new Map<string, { hash: string; chunks: number }>();
    for (const { documentId, documentHash } of this.#chunks(corpus).values()) {
      const before = found.get(documentId);
      const hash = this.tellsFirst ? (before?.hash ?? documentHash) : documentHash;
      found.set(documentId, { hash, chunks: (before?.chunks ?? 0) + 1 });
    }
    return [...found]
      .map(([id, rest]) => ({ id, ...rest }))
      .sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  async chunksOf(corpus: string, documentId: string): Promise<Chunk[]> {
    await this.#hook("chunksOf", documentId);
    return [...this.#chunks(corpus).values()]
      .filter((chunk) => chunk.documentId === documentId)
      .sort((one, other) => one.index - other.index);
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  #chunks(corpus: string): Map<string, StoredChunk> {
    const found = this.#corpora.get(corpus);
    if (found === undefined) throw new Error(`no corpus ${corpus}`);
    return found.chunks;
  }
}

function dot(one: Float32Array, other: Float32Array): number {
  return one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);
}
