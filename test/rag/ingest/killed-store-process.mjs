/**
 * Ingests a folder into a store that `openStore` opens, until it ends or is killed. Arguments:
 * folder, store. Sends its progress to its parent, the report last.
 */
import { createHash } from "node:crypto";
import { ingest } from "../../../dist/rag/ingest/index.js";
import { openStore } from "../../../dist/rag/stores/index.js";

const [folder, where] = process.argv.slice(2);
const DIMENSIONS = 8;

/** A hash of length 1: equal texts have equal vectors. */
function vectorOf(text) {
  const bytes = createHash("sha256").update(text).digest();
  const values = Array.from({ length: DIMENSIONS }, (_, at) => bytes[at] - 127.5);
  const length = Math.hypot(...values);
  return Float32Array.from(values, (value) => value / length);
}

const embedder = {
  ...{ name: "hash", fingerprint: "hash-2", dimensions: DIMENSIONS, tokensMax: 64 },
  countTokens: async (texts) => texts.map((text) => 2 + text.split(/\s+/).length),
  embedDocuments: async (texts) => texts.map(vectorOf),
};
const settings = { chunkTokens: 24, overlapTokens: 4, embedBatch: 8, storeBatch: 8, readers: 1 };
const store = await openStore(where);
const options = { store, embedder, corpus: "c", base: folder, settings };
for await (const event of ingest(["."], options)) {
  await new Promise((resolve) => process.send(event, resolve));
}
await store.close();
process.disconnect?.();
