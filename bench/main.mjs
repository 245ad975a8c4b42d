/**
 * npm run bench -- [--shapes smol135,qwen05] [--reps 5] [--threads 2] [--out FILE]
 *
 * Perigee beside llama.cpp (through node-llama-cpp, at its best setting) on the same random
 * weights, in one run. Prints a table and writes JSON.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { busyTicks, describeMachine } from "./machine.mjs";
import { installPeer } from "./peer/install.mjs";
import { writeRandomModel } from "./random-gguf.mjs";
import { SHAPES } from "./shapes.mjs";
import { WORK } from "./work.mjs";

const MS_PER_TICK = 10;
const here = fileURLToPath(new URL(".", import.meta.url));
const { values: flags } = readFlags({
  options: {
    shapes: { type: "string", default: "smol135,qwen05" },
    reps: { type: "number", default: 5, min: 1 },
    threads: { type: "number", default: availableParallelism(), min: 1 },
    out: { type: "string", default: `${here}results/cpu.json` },
  },
});
const { threads, reps } = flags;

/** Our setting and the peer's file that stand for the same precision. */
const PAIRS = [
  {
    name: "int8",
    ours: { dtype: "bfloat16", quantization: "int8", kvDtype: "bfloat16" },
    peer: "q8_0",
  },
  {
    name: "bf16",
    ours: { dtype: "bfloat16", quantization: "none", kvDtype: "bfloat16" },
    peer: "f16",
  },
];

function modelFiles(name) {
  const folder = `${here}.cache`;
  mkdirSync(folder, { recursive: true });
  const files = { f16: `${folder}/${name}-f16.gguf`, q8_0: `${folder}/${name}-q8_0.gguf` };
  if (!existsSync(files.q8_0)) writeRandomModel(SHAPES[name], name, files);
  return files;
}

/** Runs one side in a process of its own; how much others used of the machine goes with it. */
function measure(script, options, environment = {}) {
  const ticksBefore = busyTicks();
  const begun = performance.now();
  const own = process.resourceUsage();
  const output = execFileSync(process.execPath, [`${here}${script}`, JSON.stringify(options)], {
    env: { ...process.env, ...environment },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 26,
  });
  const seconds = (performance.now() - begun) / 1000;
  const busySeconds = ((busyTicks() - ticksBefore) * MS_PER_TICK) / 1000;
  const last = output.trim().split("\n").at(-1);
  return {
    ...JSON.parse(last),
    seconds,
    busyCores: busySeconds / seconds,
    ownUserMs: own.userCPUTime / 1000,
  };
}

/**
 * The peer at its best: both attention settings are tried once, the faster one is measured in full.
 * What the other one won in its single try still counts for it, figure by figure.
 */
function measurePeer(file, common) {
  const run = (flashAttention, times, warmups) => ({
    flashAttention,
    ...measure(
      "peer/run.mjs",
      { ...common, reps: times, warmups, file, flashAttention },
      { UV_THREADPOOL_SIZE: "1" },
    ),
  });
  const tries = [true, false].map((flashAttention) => run(flashAttention, 1, 0));
  const score = ({ results }) =>
    Object.values(results).reduce((product, { median: rate }) => product * rate, 1);
  const [better, other] = tries.sort((a, b) => score(b) - score(a));
  return [run(better.flashAttention, common.reps, 1), other];
}

/** The better of the peer's attention settings, figure by figure. */
function bestOf(runs) {
  const best = {};
  for (const name of Object.keys(runs[0].results)) {
    const [top] = [...runs].sort((a, b) => b.results[name].median - a.results[name].median);
    best[name] = { ...top.results[name], flashAttention: top.flashAttention };
  }
  return best;
}

function compare(shapeName) {
  const files = modelFiles(shapeName);
  const { vocabulary } = SHAPES[shapeName];
  return PAIRS.map(({ name, ours, peer }) => {
    const common = { threads, reps, vocabulary };
    const mine = measure("ours.mjs", { ...common, file: files.f16, ...ours });
    const peers = measurePeer(files[peer], common);
    const theirs = bestOf(peers);
    const rows = Object.keys(mine.results).map((work) => ({
      work,
      ours: round(mine.results[work].median),
      peer: round(theirs[work].median),
      ratio: round(mine.results[work].median / theirs[work].median, 2),
    }));
    return {
      shape: shapeName,
      precision: name,
      rows,
      ours: mine,
      peerBest: theirs,
      peerRuns: peers,
    };
  });
}

function round(value, digits = 1) {
  return Number(value.toFixed(digits));
}

installPeer();
const comparisons = flags.shapes.split(",").flatMap(compare);
const peerVersion = JSON.parse(
  readFileSync(`${here}peer/node_modules/node-llama-cpp/package.json`, "utf8"),
).version;
const report = {
  command: `npm run bench -- --shapes ${flags.shapes} --reps ${reps} --threads ${threads}`,
  machine: describeMachine(),
  peer: `node-llama-cpp ${peerVersion}, UV_THREADPOOL_SIZE=1, better of flash attention on and off`,
  unit: "tokens per second, median",
  work: WORK,
  comparisons,
};
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
for (const { shape, precision, rows, ours, peerRuns } of comparisons) {
  console.log(`\n${shape} ${precision}`);
  console.table(rows);
  const peerMb = Math.min(...peerRuns.map((run) => run.residentMb));
  console.log(
    `start to first prompt done: ${round(ours.startMs)} ms, peer ${round(peerRuns[0].startMs)} ms`,
  );
  console.log(`peak memory: ${ours.residentMb} MB, peer ${peerMb} MB`);
}
