import type { Chunk } from "#rag";

/** Where a chunk stands, as one line: `docs/cache.md:12-40 › Retention`. */
export function placeText({ documentId, place }: Chunk): string {
  const { lines, page, headings } = place;
  const [first, last] = lines ?? [];
  const range = first === undefined ? "" : `:${first}${last === first ? "" : `-${last}`}`;
  const where = page === null ? range : `${range} page ${page}`;
  const heading = headings.join(" › ").replace(/\s+/g, " ");
  return `${documentId}${where}${heading === "" ? "" : ` › ${heading}`}`;
}

/** The same for programs. */
export function placeJson({ documentId, index, place, attributes }: Chunk) {
  const { lines, page, headings } = place;
  return { document: documentId, index, lines, page, headings, attributes };
}
