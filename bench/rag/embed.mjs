// node bench/rag/embed.mjs --model FOLDER [--python PYTHON] [--texts 256] [--words 150] [--runs 5]
//                          [--threads 2] [--dtype float32] [--quantization int8] [--json FILE]
//                          [--device cpu|cuda] [--batch 32]
//
// Texts per second of an embedder here, and of sentence-transformers (--python: an interpreter that
// has it) with the same folder, texts and threads; runs alternate, medians are shown, and the worst
// difference of a vector's elements. Texts are this repository's documents in pieces of so many
// words. `--batch`: texts at once, theirs; here the engine packs
// them. Needs `npm run build`. Without --python only this engine is measured.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openEmbedder } from "../../dist/rag/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { busyTicks, describeMachine, median } from "../machine.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MS_PER_SECOND = 1000;
const TICK_MS = 10;

const { values: flags } = readFlags({
  options: {
    model: { type: "string" },
    python: { type: "string" },
    texts: { type: "number", default: 256, min: 1 },
    words: { type: "number", default: 150, min: 1 },
    runs: { type: "number", default: 5, min: 1 },
    threads: { type: "number", default: 2, min: 1 },
    device: { type: "string", default: "cpu" },
    batch: { type: "number", default: 32, min: 1 },
    dtype: { type: "string", default: "float32" },
    quantization: { type: "string" },
    json: { type: "string" },
  },
});
if (flags.model === undefined) {
  console.error("--model FOLDER is wanted: a folder in sentence-transformers' layout");
  process.exit(2);
}

/** Pieces of the documents, in their order, and again from the start where more are wanted. */
function pieces(count, words) {
  const names = readdirSync(`${ROOT}docs`).filter((name) => name.endsWith(".md"));
  const all = names.sort().flatMap((name) => {
    return readFileSync(`${ROOT}docs/${name}`, "utf8").split(/\s+/).filter(Boolean);
  });
  return Array.from({ length: count }, (_, i) => {
    const start = (i * words) % Math.max(1, all.length - words);
    return all.slice(start, start + words).join(" ");
  });
}

/** sentence-transformers in a process of its own, which answers one run at a time. */
function openPeer(python, texts) {
  const script = fileURLToPath(new URL("embed_peer.py", import.meta.url));
  const how = [flags.device, flags.dtype, String(flags.batch)];
  const child = spawn(python, [script, flags.model, String(flags.threads), ...how], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (message) => {
    child.stdin.write(`${JSON.stringify(message)}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error("the peer ended");
    return JSON.parse(value);
  };
  return {
    load: () => ask({ texts }),
    run: () => ask({ run: true }),
    close: () => child.stdin.end(),
  };
}

const texts = pieces(flags.texts, flags.words);
const embedder = await openEmbedder(flags.model, {
  prompts: {},
  engine: {
    device: flags.device,
    threads: flags.threads,
    ...(flags.quantization ? { quantization: flags.quantization } : { dtype: flags.dtype }),
  },
});
const counts = await embedder.countTokens(texts);
const tokens = counts.reduce((sum, count) => sum + Math.min(count, embedder.tokensMax), 0);
const peer = flags.python === undefined ? null : openPeer(flags.python, texts);

async function ours() {
  const [start, used] = [performance.now(), process.cpuUsage()];
  const vectors = await embedder.embedDocuments(texts);
  const { user, system } = process.cpuUsage(used);
  return {
    seconds: (performance.now() - start) / MS_PER_SECOND,
    processorSeconds: (user + system) / 1e6,
    vectors,
  };
}

const versions = await peer?.load();
const warm = await ours();
const theirs = await peer?.run();
const rows = { ours: [], theirs: [], others: [] };
/** Time of all threads: on a busy machine it tells more than the clock. */
const used = { ours: [], theirs: [] };
function note(side, { seconds, processorSeconds }) {
  rows[side].push(seconds);
  used[side].push(processorSeconds);
}
for (let run = 0; run < flags.runs; run++) {
  const [ticks, start] = [busyTicks(), performance.now()];
  const own = process.cpuUsage();
  note("ours", await ours());
  rows.others.push(otherShare(ticks, start, own));
  if (peer !== null) note("theirs", await peer.run());
}
peer?.close();
await embedder.close();

/** Share of the cores that other processes had meanwhile; null: the system does not tell. */
function otherShare(ticks, start, own) {
  const now = busyTicks();
  if (ticks === null || now === null) return null;
  const { user, system } = process.cpuUsage(own);
  const busyMs = (now - ticks) * TICK_MS - (user + system) / MS_PER_SECOND;
  return busyMs / ((performance.now() - start) * describeMachine().cores);
}

/** The largest difference of an element, of the vectors of the first run. */
function worst(vectors, expected) {
  let most = 0;
  for (const [at, vector] of vectors.entries()) {
    const length = Math.hypot(...expected[at]);
    for (const [i, value] of vector.entries()) {
      most = Math.max(most, Math.abs(value - expected[at][i] / length));
    }
  }
  return most;
}

const perSecond = (seconds) => texts.length / median(seconds);
const report = {
  machine: describeMachine(),
  command: process.argv.slice(2),
  texts: texts.length,
  tokensPerText: Math.round(tokens / texts.length),
  threads: flags.threads,
  format: flags.quantization ?? flags.dtype,
  textsPerSecond: perSecond(rows.ours),
  seconds: rows.ours,
  processorSeconds: used.ours,
  otherProcesses: rows.others,
  ...(peer !== null && {
    peer: versions,
    peerTextsPerSecond: perSecond(rows.theirs),
    peerSeconds: rows.theirs,
    peerProcessorSeconds: used.theirs,
    times: median(rows.theirs) / median(rows.ours),
    worstDifference: worst(warm.vectors, theirs.vectors),
  }),
};
if (flags.json) writeFileSync(flags.json, `${JSON.stringify(report, null, 1)}\n`);
const shown = (value) => value.toFixed(1).padStart(8);
console.log(`${report.texts} texts of ${report.tokensPerText} tokens, ${report.format}`);
const perText = (seconds) =>
  `${((1000 * median(seconds)) / texts.length).toFixed(1)} ms of cores each`;
console.log(`perigee               ${shown(report.textsPerSecond)} texts/s, ${perText(used.ours)}`);
if (peer !== null) {
  const rate = shown(report.peerTextsPerSecond);
  console.log(`sentence-transformers ${rate} texts/s, ${perText(used.theirs)}`);
  console.log(`times ${report.times.toFixed(2)}, worst difference ${report.worstDifference}`);
}
const busy = rows.others.filter((share) => share !== null).map((share) => Math.round(share * 100));
console.log(`other processes had ${busy.join(", ")} % of the cores`);
