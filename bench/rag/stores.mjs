/**
 * node bench/rag/stores.mjs [--chunks 10000,100000] [--dimensions 256]
 *   [--stores folder,milvus-lite] [--queries 200] [--lite FOLDER] [--out FILE]
 *
 * Stores of chunks: upserts a second, time and memory of searches by vector, by text, by both and
 * with a filter, recall of the first ten against comparing all, and the time to open. The corpus is
 * made (bench/rag/corpus.mjs). `--lite` is an environment of Python with milvus-lite
 * (test/peers/python-venv.sh milvus milvus-lite==3.2.2 pymilvus==3.0.2 prints it). Searches run one
 * after the other. Prints JSON and writes it.
 */
import { spawn } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { openStore } from "../../dist/rag/stores/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { busyTicks, describeMachine } from "../machine.mjs";
import { MadeCorpus } from "./corpus.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    chunks: { type: "numbers", default: [10_000], min: 100 },
    dimensions: { type: "number", default: 256, min: 4 },
    stores: { type: "string", default: "folder,milvus-lite" },
    queries: { type: "number", default: 200, min: 10 },
    lite: { type: "string", default: `${root}node_modules/.cache/peers/milvus` },
    out: { type: "string", published: `${root}bench/results/rag-stores.json` },
  },
});
const BATCH = 500;
const LIMIT = 10;
const PORT = 19_556;
const QUERY_WORDS = 6;

const rounded = (value, digits = 2) => Number(value.toFixed(digits));
const residentMb = (pid) => {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Math.round(Number(match?.[1] ?? 0) / 1000);
};
const bytesOf = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

/** Where a store is, and the process that has its memory. */
async function place(kind) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bench-store-"));
  if (kind === "folder") {
    return {
      where: folder,
      folder,
      pid: process.pid,
      end: () => rmSync(folder, { recursive: true }),
    };
  }
  const program = join(flags.lite, "bin/milvus-lite");
  const words = ["server", "--data-dir", folder, "--host", "127.0.0.1", "--port", String(PORT)];
  const child = spawn(program, words, { stdio: "ignore" });
  const end = async () => {
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
    rmSync(folder, { recursive: true });
  };
  const where = `milvus://127.0.0.1:${PORT}?timeoutMs=600000`;
  for (let attempt = 0; ; attempt++) {
    try {
      await (await openStore(where)).close();
      return { where, folder, pid: child.pid, end };
    } catch (error) {
      if (attempt === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** Milliseconds of calls, one after the other; the first is not counted. */
async function timed(count, call) {
  const times = [];
  for (let number = 0; number <= count; number++) {
    const start = performance.now();
    await call(number);
    if (number > 0) times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return {
    p50Ms: rounded(times[Math.floor(times.length / 2)]),
    p99Ms: rounded(times[Math.min(times.length - 1, Math.floor(times.length * 0.99))]),
  };
}

/** The ten nearest of each query, by comparing all. */
function nearest(corpus, queries) {
  const tops = queries.map(() => []);
  for (let number = 0; number < corpus.chunks; number++) {
    const vector = corpus.vector(number);
    queries.forEach((query, place) => {
      let score = 0;
      for (let i = 0; i < query.length; i++) score += query[i] * vector[i];
      const top = tops[place];
      if (top.length === LIMIT && score <= top[LIMIT - 1].score) return;
      top.push({ id: number.toString(16).padStart(32, "0"), score });
      top.sort((a, b) => b.score - a.score);
      top.length = Math.min(top.length, LIMIT);
    });
  }
  return tops.map((top) => new Set(top.map(({ id }) => id)));
}

async function measure(kind, corpus) {
  const { where, folder, pid, end } = await place(kind);
  try {
    const ticks = busyTicks();
    const start = performance.now();
    let store = await openStore(where);
    const name = "made";
    await store.create({ name, dimensions: corpus.dimensions, embedder: "made" });
    let upsertMs = 0;
    for (let first = 0; first < corpus.chunks; first += BATCH) {
      const length = Math.min(BATCH, corpus.chunks - first);
      const chunks = Array.from({ length }, (_, place) => corpus.chunk(first + place));
      const before = performance.now();
      await store.upsert(name, chunks);
      upsertMs += performance.now() - before;
    }
    const writtenMb = residentMb(pid);
    const closing = performance.now();
    await store.close();
    const closeMs = performance.now() - closing;
    const opening = performance.now();
    store = await openStore(where);
    await store.count(name, null);
    const openMs = performance.now() - opening;
    const query = (number, rest) => ({
      vector: corpus.vector(corpus.chunks + number),
      text: null,
      limit: LIMIT,
      filter: null,
      ...rest,
    });
    const words = (number) => corpus.text(corpus.chunks + number, QUERY_WORDS);
    const one = { type: "eq", key: "percent", value: 7 };
    const half = { type: "eq", key: "lang", value: "en" };
    const run = (rest) =>
      timed(flags.queries, (number) => store.search(name, query(number, rest(number))));
    const searches = {
      vector: await run(() => ({})),
      vectorOfHalf: await run(() => ({ filter: half })),
      vectorOfPercent: await run(() => ({ filter: one })),
      text: await run((number) => ({ vector: null, text: words(number) })),
      both: await run((number) => ({ text: words(number) })),
    };
    const queries = Array.from({ length: Math.min(100, flags.queries) }, (_, number) =>
      corpus.vector(corpus.chunks + number),
    );
    const exact = nearest(corpus, queries);
    let shared = 0;
    for (const [place, vector] of queries.entries()) {
      const hits = await store.search(name, { vector, text: null, limit: LIMIT, filter: null });
      shared += hits.filter(({ chunk }) => exact[place].has(chunk.id)).length;
    }
    const result = {
      store: kind,
      version: store.info.version,
      chunks: corpus.chunks,
      dimensions: corpus.dimensions,
      upsertsPerSecond: Math.round((corpus.chunks / upsertMs) * 1000),
      closeMs: rounded(closeMs, 0),
      openMs: rounded(openMs, 0),
      searches,
      recallAt10: rounded(shared / (queries.length * LIMIT), 4),
      residentMbAfterWriting: writtenMb,
      residentMbAfterSearching: residentMb(pid),
      diskMb: Math.round(bytesOf(folder) / 1e6),
      // Cores that all programs of the machine used meanwhile, this one's included.
      busyCores:
        ticks === null ? null : rounded((busyTicks() - ticks) / ((performance.now() - start) / 10)),
    };
    await store.close();
    return result;
  } finally {
    await end();
  }
}

const results = [];
for (const chunks of flags.chunks) {
  const corpus = new MadeCorpus({ chunks, dimensions: flags.dimensions });
  for (const kind of flags.stores.split(",")) {
    const result = await measure(kind, corpus);
    console.error(JSON.stringify(result));
    results.push(result);
  }
}
const text = JSON.stringify({ machine: describeMachine(), results }, null, 2);
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${text}\n`);
console.log(text);
