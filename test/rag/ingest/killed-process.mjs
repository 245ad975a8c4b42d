/**
 * Ingests a folder into a log, and kills itself before one of its writes, or is killed.
 * Arguments: folder, log, number of writes before the end (0: none), whether `tellsFirst`.
 */
import { createHash } from "node:crypto";
import { ingest } from "../../../dist/rag/ingest/index.js";
import { LogStore } from "./log-store.mjs";

const [folder, log, writesLeft, tellsFirst] = process.argv.slice(2);
let left = Number(writesLeft);
const store = new LogStore(log, tellsFirst === "true", () => {
  if (left > 0 && --left === 0) process.kill(process.pid, "SIGKILL");
});

/** Four dimensions of a hash: equal texts have equal vectors. */
function vectorOf(text) {
  const bytes = createHash("sha256").update(text).digest();
  return Float32Array.from({ length: 4 }, (_, at) => bytes[at] / 255);
}

const embedder = {
  ...{ name: "hash", fingerprint: "hash-1", dimensions: 4, tokensMax: 64 },
  countTokens: async (texts) => texts.map((text) => 2 + text.split(/\s+/).length),
  embedDocuments: async (texts) => {
    await new Promise((resolve) => setImmediate(resolve));
    return texts.map(vectorOf);
  },
};
const settings = { chunkTokens: 24, overlapTokens: 4, embedBatch: 3, storeBatch: 4, readers: 1 };
const options = { store, embedder, corpus: "c", base: folder, settings };
for await (const event of ingest(["."], options)) {
  if (event.type === "report") await new Promise((resolve) => process.send(event, resolve));
}
process.disconnect?.();
