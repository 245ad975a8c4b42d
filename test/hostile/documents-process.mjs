/**
 * Ingests a folder of strangers' files, and tells the report, its longest pause and its most memory.
 * Arguments: folder, settings as JSON.
 */
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ingest } from "../../dist/rag/ingest/index.js";

const [base, settings] = process.argv.slice(2);
const DIMENSIONS = 8;

/** Chunks by document; not their ids, whose memory would be measured, too. */
const documents = new Map();
const store = {
  create: async () => {},
  documents: async () => [],
  chunksOf: async () => [],
  deleteDocument: async () => 0,
  upsert: async (_, chunks) => {
    for (const { documentId } of chunks) {
      documents.set(documentId, (documents.get(documentId) ?? 0) + 1);
    }
  },
};
const embedder = {
  ...{ name: "none", fingerprint: "none", dimensions: DIMENSIONS, tokensMax: 512 },
  countTokens: async (texts) => texts.map((text) => 2 + Math.ceil(text.length / 4)),
  embedDocuments: async (texts) => texts.map(() => new Float32Array(DIMENSIONS).fill(0.35)),
};

/** CPU time of this thread, where the system tells; else of the process. */
function cpuMs() {
  try {
    const [ns = ""] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(ns) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

/**
 * The longest time between two turns of the loop in which this thread computed: on a busy machine
 * the loop also stands still while others compute.
 */
let pauseMs = 0;
let last = { ms: performance.now(), cpu: cpuMs() };
setInterval(() => {
  const now = { ms: performance.now(), cpu: cpuMs() };
  pauseMs = Math.max(pauseMs, Math.min(now.ms - last.ms, now.cpu - last.cpu) - 10);
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
