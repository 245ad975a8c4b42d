import { createHash } from "node:crypto";
import { type Chunk, chunkId, type Embedder, type EmbedOptions, type StoredChunk } from "#rag";

const DIMENSIONS = 256;

/** Vectors of the words of texts: each word adds to one element. Texts share what words they share. */
export class WordEmbedder implements Embedder {
  readonly name = "words";
  readonly fingerprint = "words 256";
  readonly dimensions: number = DIMENSIONS;
  readonly tokensMax = 512;
  closed = false;

  async countTokens(texts: readonly string[]): Promise<number[]> {
    return texts.map((text) => wordsIn(text).length);
  }

  async embedQueries(
    texts: readonly string[],
    options: EmbedOptions = {},
  ): Promise<Float32Array[]> {
    options.signal?.throwIfAborted();
    return texts.map(vectorOf);
  }

  embedDocuments(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    return this.embedQueries(texts, options);
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function wordsIn(text: string): string[] {
  return text.toLowerCase().match(/\p{L}{3,}|\d+/gu) ?? [];
}

function vectorOf(text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  for (const word of wordsIn(text)) {
    const place = createHash("sha256").update(word).digest()[0] ?? 0;
    vector[place] = (vector[place] ?? 0) + 1;
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

/** A chunk of its document's text alone, with its vector. */
export function wordChunk(
  documentId: string,
  text: string,
  more: Partial<Chunk> = {},
): StoredChunk {
  const index = more.index ?? 0;
  const place = { lines: null, page: null, headings: [] };
  const chunk = { documentId, documentHash: "0", text, place, attributes: {}, ...more, index };
  return { ...chunk, id: chunkId(documentId, index, text), vector: vectorOf(text) };
}
