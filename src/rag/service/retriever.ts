/** Finds chunks: by vector, by words or both, and what of it fits a question. */
import { EngineError } from "#base";
import { isContent, stemOf, wordsOf } from "#rag/answering";
import type { Embedder, Reranker } from "#rag/embedders";
import type { Filter, Hit, VectorStore } from "#rag/stores";
import type { SearchSettings } from "./config.ts";

/** A chunk that a search found, with what is known about how well it fits. */
export interface FoundChunk extends Hit {
  /** Cosine of question and chunk; null where they were not compared. */
  readonly cosine: number | null;
  /** The reranker's score, 0 to 1; null without one. */
  readonly relevance: number | null;
}

/** One search. */
export interface Retrieval {
  /** Searched together; not empty. */
  readonly corpora: readonly string[];
  readonly query: string;
  readonly filter: Filter | null;
  readonly settings: SearchSettings;
  readonly signal?: AbortSignal;
}

/** Where is searched, and by what. */
export interface RetrieverParts {
  readonly store: VectorStore;
  readonly embedder: Embedder;
  readonly reranker: Reranker | null;
}

/**
 * The chunks found, best first. Throws INVALID_ARGUMENT for an unknown corpus, CORPUS_INVALID for
 * another embedder's, and what store and embedder throw.
 */
export async function retrieve(parts: RetrieverParts, retrieval: Retrieval): Promise<FoundChunk[]> {
  const { store, embedder, reranker } = parts;
  const { corpora, query, settings, signal } = retrieval;
  for (const corpus of corpora) await checkCorpus(store, embedder, corpus);
  const options = signal === undefined ? {} : { signal };
  const [vector = null] =
    settings.mode === "text" ? [] : await embedder.embedQueries([query], options);
  signal?.throwIfAborted();
  const lists = await Promise.all(
    corpora.map((corpus) => found(parts, { ...retrieval, corpus, vector })),
  );
  signal?.throwIfAborted();
  const chunks = merged(lists);
  if (reranker === null || chunks.length === 0) return chunks.slice(0, settings.limit);
  const read = chunks.slice(0, Math.max(settings.limit, settings.candidates));
  const texts = read.map(({ chunk }) => chunk.text);
  const scores = await reranker.score(query, texts, options);
  return read
    .map((chunk, place) => ({ ...chunk, relevance: scores[place] ?? 0 }))
    .sort((a, b) => b.relevance - a.relevance || (a.chunk.id < b.chunk.id ? -1 : 1))
    .slice(0, settings.limit);
}

/** One corpus's part of a search. */
interface CorpusSearch extends Retrieval {
  readonly corpus: string;
  readonly vector: Float32Array | null;
}

async function found(
  { store, reranker }: RetrieverParts,
  { corpus, vector, query, filter, settings }: CorpusSearch,
): Promise<FoundChunk[]> {
  const limit = reranker === null ? settings.limit : Math.max(settings.limit, settings.candidates);
  const text = settings.mode === "vector" ? null : query;
  const found = store.search(corpus, { vector, text, limit, filter });
  // Ranks of a hybrid search say nothing of how well a chunk fits: the cosine does.
  const near =
    settings.mode === "hybrid"
      ? store.search(corpus, { vector, text: null, limit, filter })
      : settings.mode === "vector"
        ? found
        : Promise.resolve([]);
  const [hits, nearest] = await Promise.all([found, near]);
  const cosines = new Map(nearest.map(({ chunk, score }) => [chunk.id, score]));
  return hits.map((hit) => {
    return { ...hit, cosine: cosines.get(hit.chunk.id) ?? null, relevance: null };
  });
}

/** Of several corpora by score: of a hybrid search the ranks within each, then the cosine. */
function merged(lists: readonly FoundChunk[][]): readonly FoundChunk[] {
  const [only] = lists;
  if (only !== undefined && lists.length === 1) return only;
  return lists
    .flat()
    .sort(
      (a, b) =>
        b.score - a.score ||
        (b.cosine ?? -1) - (a.cosine ?? -1) ||
        (a.chunk.id < b.chunk.id ? -1 : 1),
    );
}

async function checkCorpus(store: VectorStore, embedder: Embedder, name: string): Promise<void> {
  const corpus = await store.corpus(name);
  if (corpus === null) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot search ${name}: wanted a corpus of the store, there is none of this name; ingest ` +
        "documents into it first",
      { param: "corpus" },
    );
  }
  if (corpus.embedder === embedder.fingerprint) return;
  throw new EngineError(
    "CORPUS_INVALID",
    `Cannot search ${name}: wanted the embedder that made its vectors (${corpus.embedder}), ` +
      `current value is ${embedder.name} (${embedder.fingerprint}); use that one, or ingest again`,
    { param: "embedder" },
  );
}

/** Least share of a question's words in a chunk that fits although its score is low. */
const WORDS_MIN = 0.5;

/** What may answer a question: chunks of enough score, or with enough of its words. */
export function fitting<C extends FoundChunk>(
  found: readonly C[],
  question: string,
  scoreMin: number,
): C[] {
  const wanted = new Set(wordsOf(question).filter(isContent).map(stemOf));
  return found.filter(({ chunk, cosine, relevance }) => {
    if (relevance !== null) return relevance >= scoreMin;
    if (cosine !== null && cosine >= scoreMin) return true;
    const texts = [chunk.text, ...chunk.place.headings].join(" ");
    const words = new Set(wordsOf(texts).map(stemOf));
    const said = [...wanted].filter((stem) => words.has(stem)).length;
    return wanted.size > 0 && said / wanted.size >= WORDS_MIN;
  });
}
