/** A part of a document that is found by its meaning or its words, and where it stands there. */
import { createHash } from "node:crypto";

/** Values by which chunks can be filtered; names have letters, digits, `_` and `-`. */
export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Where a chunk stands in its document. */
export interface ChunkPlace {
  /** First and last line, from 1; null where the format has none (PDF). */
  readonly lines: readonly [first: number, last: number] | null;
  /** From 1; null where there are no pages. */
  readonly page: number | null;
  /** Headings above it, the outermost first; in source code names of what encloses it. */
  readonly headings: readonly string[];
}

/** A part of a document within an embedder's limit of tokens. */
export interface Chunk {
  /** `chunkId` of its document, index and text: equal contents have equal ids. */
  readonly id: string;
  /** The document's name in its corpus: a path below a base folder, or an address. */
  readonly documentId: string;
  /**
   * 64 hex digits of the document's bytes, of how they were read and cut, and of the number of its
   * chunks (`documentVersion` of ingest): a document that did not change is not stored again.
   */
  readonly documentHash: string;
  /** Its place in the order of the document's chunks, from 0. */
  readonly index: number;
  /** As it stands in the document. */
  readonly text: string;
  readonly place: ChunkPlace;
  readonly attributes: Attributes;
}

/** A chunk with its vector, as stores keep it. */
export interface StoredChunk extends Chunk {
  /** [dimensions], of length 1. */
  readonly vector: Float32Array;
}

/** 32 hex digits of a chunk's content: its document, its place in it, its text. */
export function chunkId(documentId: string, index: number, text: string): string {
  const hash = createHash("sha256").update(JSON.stringify([documentId, index, text]));
  return hash.digest("hex").slice(0, 32);
}
