/**
 * What a stored document was made from, in the 64 hex digits of its chunks' `documentHash`: 56 of
 * its bytes and of how they were read and cut, and 8 of the number of its chunks. So a store tells
 * by `documents()` alone which documents are there as a whole: it has no transactions over several
 * calls, and a process may end between any two of them.
 */
import { createHash } from "node:crypto";
import type { StoredDocument } from "#rag/stores";

const CONTENT_DIGITS = 56;
const COUNT_DIGITS = 8;
/** No document has so many chunks: chunks of a replacement that is under way. */
const UNFINISHED = "f".repeat(COUNT_DIGITS);

/** The part of a version that is known before a document is cut. */
export function contentVersion(hash: string, recipe: string): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([hash, recipe]))
    .digest("hex");
  return digest.slice(0, CONTENT_DIGITS);
}

/** The version of a document of so many chunks. */
export function documentVersion(content: string, chunks: number): string {
  return content + chunks.toString(16).padStart(COUNT_DIGITS, "0");
}

/** Of chunks that stand beside those of an earlier version. */
export function unfinishedVersion(content: string): string {
  return content + UNFINISHED;
}

/** Whether a document is stored in this version with all of its chunks. */
export function isWhole(stored: StoredDocument | undefined, content: string): boolean {
  return stored !== undefined && stored.hash === documentVersion(content, stored.chunks);
}
