/** The steps of a corpus that is written again and again: each is one call of a store. */
import { createHash } from "node:crypto";

export const steps = 400;
const CHUNKS = 9;
const DOCUMENTS = 5;

/** Even steps store a document's next version; odd ones remove the former. */
export async function write(store, step) {
  const version = Math.floor(step / 2);
  const chunks = chunksOf(version);
  if (step % 2 === 0) return store.upsert("written", chunks);
  const keep = new Set(chunks.map(({ id }) => id));
  return store.deleteDocument("written", chunks[0].documentId, keep);
}

function chunksOf(version) {
  const documentId = `document-${version % DOCUMENTS}`;
  return Array.from({ length: CHUNKS }, (_, index) => {
    const text = `version ${version} part ${index} ${"words ".repeat(50)}`;
    const id = createHash("sha256").update(`${documentId}/${index}/${text}`).digest("hex");
    return {
      id: id.slice(0, 32),
      documentId,
      documentHash: `hash-${version}`,
      index,
      text,
      place: { lines: [1, 2], page: null, headings: [] },
      attributes: { version },
      vector: vectorOf(version * CHUNKS + index),
    };
  });
}

function vectorOf(seed) {
  const elements = Float32Array.from({ length: 16 }, (_, place) =>
    Math.sin(seed * 37 + place * 11),
  );
  const length = Math.hypot(...elements);
  return elements.map((element) => element / length);
}
