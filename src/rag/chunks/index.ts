/**
 * rag/chunks: documents are cut into chunks within a limit of tokens.
 *
 *   atoms.ts      a text in its smallest parts: sentences, lines, words
 *   packing.ts    atoms become spans within a budget, which end where the text does, with overlap
 *   chunker.ts    the sections of a document become pieces; all tokens counted by the embedder
 *   passage.ts    the text of a chunk that gets a vector: below its headings
 *
 * Invariant: no text is lost: the pieces of a section have all of its characters but white space.
 *
 * @module
 */
export { type Atom, atomsOf } from "./atoms.ts";
export { Chunker, type ChunkLimits, type CountTokens, cutDocument, type Piece } from "./chunker.ts";
export { passageOf } from "./passage.ts";
