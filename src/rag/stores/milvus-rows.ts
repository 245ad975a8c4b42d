/** Chunks as rows of a Milvus collection, and back. */
import type { Chunk, StoredChunk } from "#rag/texts";
import { ATTRIBUTES_FIELD, readAttributes, storedAttributes } from "./milvus-filter.ts";
import { wordsOf } from "./words.ts";

/** A row as it is sent, or what of it was asked for. */
export type MilvusRow = Record<string, unknown>;

/** Weights by the number of a word. */
export type SparseVector = Record<number, number>;

/** Fields from which a chunk is read. */
export const CHUNK_FIELDS = ["key", "document", "hash", "place", "text", "about", ATTRIBUTES_FIELD];

const WORDS_BYTES_MAX = 65_000;
const QUESTION_WORDS_MAX = 64;
/** Constants of BM25, and the length that texts are compared with: servers have no mean of it. */
const SATURATION = 1.2;
const LENGTH_WEIGHT = 0.75;
const USUAL_WORDS = 100;
/** Of a text without words, since a sparse vector must not be empty. No word has this number. */
const NO_WORD: SparseVector = { 4294967293: 1 };
const WORD_NUMBERS = 4_294_967_290;

/** Corpora of one collection may share documents: a chunk's key begins with its corpus. */
export function keyOf(corpus: string, id: string): string {
  return `${corpus}/${id}`;
}

/** `hasBm25`: the server makes the sparse vector itself. */
export function rowOf(corpus: string, chunk: StoredChunk, hasBm25: boolean): MilvusRow {
  const words = wordsOf(chunk.text).map(plainWord);
  const { lines, page, headings } = chunk.place;
  const row: MilvusRow = {
    key: keyOf(corpus, chunk.id),
    document: chunk.documentId,
    hash: chunk.documentHash,
    place: chunk.index,
    text: chunk.text,
    words: ` ${withinBytes(words).join(" ")} `,
    about: { lines, page, headings },
    [ATTRIBUTES_FIELD]: storedAttributes(chunk.attributes),
    vector: Array.from(chunk.vector),
  };
  return hasBm25 ? row : { ...row, sparse: weightsOf(words) };
}

export function chunkOf(corpus: string, row: MilvusRow): Chunk {
  const about = row.about as Chunk["place"];
  return {
    id: idOf(corpus, row),
    documentId: String(row.document),
    documentHash: String(row.hash),
    index: Number(row.place),
    text: String(row.text),
    place: { lines: about.lines, page: about.page, headings: about.headings },
    attributes: readAttributes(row[ATTRIBUTES_FIELD] as Record<string, unknown>),
  };
}

export function idOf(corpus: string, row: MilvusRow): string {
  return String(row.key).slice(corpus.length + 1);
}

/** The different words of a question as rows have them, the first 64. */
export function questionWords(text: string): string[] {
  return [...new Set(wordsOf(text).map(plainWord))].slice(0, QUESTION_WORDS_MAX);
}

/** A question's words with how rare each is: the other half of the sum that rows have a half of. */
export function questionWeights(rareness: ReadonlyMap<string, number>): SparseVector {
  const weights: SparseVector = {};
  for (const [word, weight] of rareness) weights[numberOf(word)] = weight;
  return weights;
}

function weightsOf(words: readonly string[]): SparseVector {
  if (words.length === 0) return NO_WORD;
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const length = 1 - LENGTH_WEIGHT + (LENGTH_WEIGHT * words.length) / USUAL_WORDS;
  const weights: SparseVector = {};
  for (const [word, count] of counts) {
    weights[numberOf(word)] = (count * (SATURATION + 1)) / (count + SATURATION * length);
  }
  return weights;
}

/** FNV-1a (Fowler, Noll, Vo, 1991); two words in four milliards may share a number. */
function numberOf(word: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < word.length; place++) {
    hash = Math.imul(hash ^ word.charCodeAt(place), 0x01000193);
  }
  return (hash >>> 0) % WORD_NUMBERS;
}

/** Analyzers of servers cut words of other letters in ways of their own: their bytes stay whole. */
function plainWord(word: string): string {
  return /^[a-z0-9]+$/.test(word) ? word : `zx${Buffer.from(word).toString("hex")}`;
}

function withinBytes(words: readonly string[]): readonly string[] {
  let bytes = 0;
  const end = words.findIndex((word) => {
    bytes += word.length + 1;
    return bytes > WORDS_BYTES_MAX;
  });
  return end < 0 ? words : words.slice(0, end);
}
