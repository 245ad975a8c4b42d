/** A store in this process that keeps the contract in the plainest way: every chunk is read. */
import {
  type CorpusInfo,
  type CorpusSpec,
  type Hit,
  passes,
  type StoredChunk,
  type StoredDocument,
  type StoreInfo,
  type StoreQuery,
  type VectorStore,
} from "#rag";

interface Corpus {
  readonly spec: CorpusSpec;
  readonly chunks: Map<string, StoredChunk>;
}

const byId = (a: Hit, b: Hit) => (a.chunk.id < b.chunk.id ? -1 : 1);

export class MemoryStore implements VectorStore {
  readonly info: StoreInfo = {
    ...{ kind: "memory", location: "here", version: "1", text: "own", notes: [] },
  };
  readonly #corpora = new Map<string, Corpus>();
  /** Queries that were asked. */
  readonly queries: StoreQuery[] = [];
  closed = false;

  async create(spec: CorpusSpec): Promise<void> {
    if (!this.#corpora.has(spec.name)) this.#corpora.set(spec.name, { spec, chunks: new Map() });
  }

  async corpora(): Promise<CorpusInfo[]> {
    const found = await Promise.all([...this.#corpora.keys()].sort().map((n) => this.corpus(n)));
    return found.filter((one) => one !== null);
  }

  async corpus(name: string): Promise<CorpusInfo | null> {
    const corpus = this.#corpora.get(name);
    if (corpus === undefined) return null;
    const documents = new Set([...corpus.chunks.values()].map((chunk) => chunk.documentId));
    return { ...corpus.spec, documents: documents.size, chunks: corpus.chunks.size };
  }

  async drop(name: string): Promise<void> {
    this.#corpora.delete(name);
  }

  async upsert(name: string, chunks: readonly StoredChunk[]): Promise<void> {
    for (const chunk of chunks) this.#chunks(name).set(chunk.id, chunk);
  }

  async deleteDocument(name: string, id: string, keep = new Set<string>()): Promise<number> {
    const own = this.#of(name, id).filter((chunk) => !keep.has(chunk.id));
    for (const chunk of own) this.#chunks(name).delete(chunk.id);
    return own.length;
  }

  async search(name: string, query: StoreQuery): Promise<Hit[]> {
    this.queries.push(query);
    const { filter, vector, text, limit } = query;
    const chunks = [...this.#chunks(name).values()].filter((chunk) => {
      return filter === null || passes(filter, chunk.attributes);
    });
    const rank = (score: (chunk: StoredChunk) => number) =>
      chunks
        .map((chunk) => ({ chunk, score: score(chunk) }))
        .sort((a, b) => b.score - a.score || byId(a, b));
    const near = vector === null ? null : rank((chunk) => dot(chunk.vector, vector));
    const said = text === null ? null : rank((chunk) => shared(chunk.text, text));
    if (near === null || said === null) return (near ?? said ?? []).slice(0, limit);
    const place = (list: readonly Hit[]) => new Map(list.map(({ chunk }, i) => [chunk.id, i + 1]));
    const [a, b] = [place(near), place(said)];
    const fused = rank(({ id }) => 1 / (60 + (a.get(id) ?? 0)) + 1 / (60 + (b.get(id) ?? 0)));
    return fused.slice(0, limit);
  }

  async documents(name: string): Promise<StoredDocument[]> {
    const found = new Map<string, StoredDocument>();
    for (const { documentId: id, documentHash: hash } of this.#chunks(name).values()) {
      found.set(id, { id, hash, chunks: (found.get(id)?.chunks ?? 0) + 1 });
    }
    return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async chunksOf(name: string, id: string): Promise<StoredChunk[]> {
    return this.#of(name, id).sort((a, b) => a.index - b.index);
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #chunks(name: string): Map<string, StoredChunk> {
    return this.#corpora.get(name)?.chunks ?? new Map();
  }

  #of(name: string, id: string): StoredChunk[] {
    return [...this.#chunks(name).values()].filter(({ documentId }) => documentId === id);
  }
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, place) => sum + value * (b[place] ?? 0), 0);
}

function shared(text: string, query: string): number {
  const words = new Set(text.toLowerCase().match(/\w+/g));
  return (query.toLowerCase().match(/\w+/g) ?? []).filter((word) => words.has(word)).length;
}
