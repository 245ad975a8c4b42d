/**
 * Ingests a folder of strangers' files, and tells the report, its longest pause and its most memory.
 * Arguments: folder, settings as JSON.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ingest } from "../../dist/rag/ingest/index.js";

const [base, settings] = process.argv.slice(2);
const DIMENSIONS = 8;

const documents = new Map();
const store = {
  create: async () => {},
  documents: async () =>
    [...documents].map(([id, { hash, chunks }]) => ({ id, hash, chunks: chunks.size })),
  chunksOf: async () => [],
  deleteDocument: async (_, id) => Number(documents.delete(id)),
  upsert: async (_, chunks) => {
    for (const { documentId, documentHash: hash, id } of chunks) {
      const document = documents.get(documentId) ?? { hash, chunks: new Set() };
      document.chunks.add(id);
      documents.set(documentId, document);
    }
  },
};
const embedder = {
  ...{ name: "none", fingerprint: "none", dimensions: DIMENSIONS, tokensMax: 512 },
  countTokens: async (texts) => texts.map((text) => 2 + Math.ceil(text.length / 4)),
  embedDocuments: async (texts) => texts.map(() => new Float32Array(DIMENSIONS).fill(0.35)),
};

/**
 * The longest time between two turns of the loop in which this process computed: on a busy machine
 * the loop also stands still while others compute.
 */
let pauseMs = 0;
let last = { ms: performance.now(), cpu: process.cpuUsage() };
setInterval(() => {
  const now = { ms: performance.now(), cpu: process.cpuUsage() };
  const cpuMs = (now.cpu.user + now.cpu.system - last.cpu.user - last.cpu.system) / 1000;
  pauseMs = Math.max(pauseMs, Math.min(now.ms - last.ms, cpuMs) - 10);
  last = now;
}, 10).unref();
const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();

let residentBytes = 0;
for await (const event of ingest(["."], {
  store,
  embedder,
  corpus: "c",
  base,
  settings: JSON.parse(settings),
})) {
  residentBytes = Math.max(residentBytes, process.memoryUsage.rss());
  if (event.type !== "report") continue;
  const loopDelayMs = delay.max / 1e6;
  const outcome = {
    report: event,
    ids: [...documents.keys()],
    pauseMs,
    loopDelayMs,
    residentBytes,
  };
  await new Promise((resolve) => process.send(outcome, resolve));
}
process.disconnect();
