/** The contract of a store of chunks in its plainest form: lists, and every sum written out. */
import type {
  CorpusInfo,
  CorpusSpec,
  Filter,
  Hit,
  StoredDocument,
  StoreInfo,
  StoreQuery,
  VectorStore,
} from "#rag/stores";
import { fuse, listLength, passes, wordsOf } from "#rag/stores";
import type { Chunk, StoredChunk } from "#rag/texts";

interface Corpus {
  readonly spec: CorpusSpec;
  readonly chunks: Map<string, StoredChunk>;
}

export class MemoryStore implements VectorStore {
  /** All that was searched for. */
  readonly queries: StoreQuery[] = [];
  closed = false;
  readonly info: StoreInfo = {
    kind: "memory",
    location: "memory",
    version: "1",
    text: "own",
    notes: [],
  };
  readonly #corpora = new Map<string, Corpus>();

  async create(spec: CorpusSpec): Promise<void> {
    if (!this.#corpora.has(spec.name)) this.#corpora.set(spec.name, { spec, chunks: new Map() });
  }

  async corpora(): Promise<CorpusInfo[]> {
    const all = await Promise.all([...this.#corpora.keys()].sort().map((one) => this.corpus(one)));
    return all.flatMap((one) => (one === null ? [] : [one]));
  }

  async corpus(name: string): Promise<CorpusInfo | null> {
    const corpus = this.#corpora.get(name);
    if (corpus === undefined) return null;
    const documents = new Set([...corpus.chunks.values()].map(({ documentId }) => documentId));
    return { ...corpus.spec, documents: documents.size, chunks: corpus.chunks.size };
  }

  async drop(name: string): Promise<void> {
    this.#corpora.delete(name);
  }

  async upsert(corpus: string, chunks: readonly StoredChunk[]): Promise<void> {
    for (const chunk of chunks) this.#of(corpus).set(chunk.id, chunk);
  }

  async deleteDocument(
    corpus: string,
    documentId: string,
    keep: ReadonlySet<string> = new Set(),
  ): Promise<number> {
    const gone = [...this.#of(corpus).values()].filter(
      (chunk) => chunk.documentId === documentId && !keep.has(chunk.id),
    );
    for (const { id } of gone) this.#of(corpus).delete(id);
    return gone.length;
  }

  async count(corpus: string, filter: Filter | null): Promise<number> {
    return this.#passing(corpus, filter).length;
  }

  async search(corpus: string, query: StoreQuery): Promise<Hit[]> {
    this.queries.push(query);
    const { vector, text, limit, filter } = query;
    const chunks = this.#passing(corpus, filter);
    const isHybrid = vector !== null && text !== null;
    const lists: Hit[][] = [];
    if (vector !== null) {
      lists.push(chunks.map((chunk) => ({ chunk, score: product(vector, chunk.vector) })));
    }
    if (text !== null) lists.push(byWords([...this.#of(corpus).values()], chunks, text));
    const ranked = lists.map((list) =>
      list.sort(byScore).slice(0, isHybrid ? listLength(limit) : limit),
    );
    if (!isHybrid) return ranked.flat().map(({ chunk, score }) => ({ chunk: plain(chunk), score }));
    const fused = fuse(
      ranked.map((list) => list.map(({ chunk, score }) => ({ id: chunk.id, score }))),
      limit,
    );
    return fused.flatMap(({ id, score }) => {
      const chunk = this.#of(corpus).get(id);
      return chunk === undefined ? [] : [{ chunk: plain(chunk), score }];
    });
  }

  async documents(corpus: string): Promise<StoredDocument[]> {
    const all = [...this.#of(corpus).values()];
    return [...new Set(all.map(({ documentId }) => documentId))].sort().map((id) => {
      const chunks = all.filter(({ documentId }) => documentId === id);
      const hashes = new Set(chunks.map(({ documentHash }) => documentHash));
      const [hash = ""] = hashes;
      return { id, hash: hashes.size === 1 ? hash : "", chunks: chunks.length };
    });
  }

  async chunksOf(corpus: string, documentId: string): Promise<Chunk[]> {
    const own = [...this.#of(corpus).values()].filter((chunk) => chunk.documentId === documentId);
    return own
      .sort((one, other) => one.index - other.index || (one.id < other.id ? -1 : 1))
      .map(plain);
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #of(name: string): Map<string, StoredChunk> {
    return this.#corpora.get(name)?.chunks ?? new Map();
  }

  #passing(corpus: string, filter: Filter | null): StoredChunk[] {
    const all = [...this.#of(corpus).values()];
    return all.filter(({ attributes }) => filter === null || passes(filter, attributes));
  }
}

/** Best first; ties by id. */
function byScore(one: Hit, other: Hit): number {
  return other.score - one.score || (one.chunk.id < other.chunk.id ? -1 : 1);
}

function plain(chunk: Chunk): Chunk {
  const { id, documentId, documentHash, index, text, place, attributes } = chunk;
  return { id, documentId, documentHash, index, text, place, attributes };
}

function product(one: Float32Array, other: Float32Array): number {
  return one.reduce((sum, element, place) => sum + element * (other[place] ?? 0), 0);
}

/** BM25 (Robertson, Zaragoza, 2009) with the constants and the floor of SQLite's FTS5. */
function byWords(all: readonly Chunk[], chunks: readonly Chunk[], text: string): Hit[] {
  const asked = [...new Set(wordsOf(text))];
  const wordsIn = new Map(all.map((chunk) => [chunk.id, wordsOf(chunk.text)]));
  const lengths = [...wordsIn.values()].map(({ length }) => length);
  const mean = lengths.reduce((sum, one) => sum + one, 0) / Math.max(1, all.length);
  const weights = asked.map((word) => {
    const having = [...wordsIn.values()].filter((words) => words.includes(word)).length;
    return Math.max(1e-6, Math.log((all.length - having + 0.5) / (having + 0.5)));
  });
  return chunks.flatMap((chunk) => {
    const words = wordsIn.get(chunk.id) ?? [];
    const score = asked.reduce((sum, word, place) => {
      const count = words.filter((one) => one === word).length;
      const rareness = weights[place] ?? 0;
      return sum + (rareness * count * 2.2) / (count + 1.2 * (0.25 + (0.75 * words.length) / mean));
    }, 0);
    return score > 0 ? [{ chunk, score }] : [];
  });
}
