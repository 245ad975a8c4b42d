/**
 * rag/texts: documents and the parts of them that are stored, as plain data.
 *
 *   source-document.ts   a document that was read, in sections
 *   chunk.ts             a part of one within an embedder's limit, and its place
 *
 * @module
 */
export {
  type Attributes,
  type Chunk,
  type ChunkPlace,
  chunkId,
  type StoredChunk,
} from "./chunk.ts";
export type { Section, SourceDocument } from "./source-document.ts";
