/**
 * npm run bench -- [--shapes smol135,qwen05] [--files q4_0,q4_k_m,q8_0,f16] [--model FILE.gguf]
 *     [--rounds 3] [--reps 3] [--prompts 512,4096] [--streams 1,8,16] [--threads 2] [--isa avx2]
 *     [--peer-isa haswell] [--out FILE]
 *
 * Perigee beside llama.cpp (through node-llama-cpp, at its best setting) on the same files, which
 * have random weights, or on one that is given. Both sides take turns. Prints tables; writes JSON
 * where --out says so. How much of the memory's read speed one stream uses means something where
 * the file is larger than the last cache (qwen15). --isa limits our instructions, --peer-isa leaves
 * llama.cpp only that variant of its CPU library.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { busyTicks, describeMachine, median } from "./machine.mjs";
import { installPeer, limitPeer } from "./peer/install.mjs";
import { writeRandomModel } from "./random-gguf.mjs";
import { SHAPES } from "./shapes.mjs";
import { WORK } from "./work.mjs";

const MS_PER_TICK = 10;
const here = fileURLToPath(new URL(".", import.meta.url));
const { values: flags } = readFlags({
  options: {
    shapes: { type: "string", default: "smol135,qwen05" },
    files: { type: "string", default: "q4_0,q4_k_m,q8_0,f16" },
    model: { type: "string" },
    rounds: { type: "number", default: 3, min: 1 },
    reps: { type: "number", default: 3, min: 1 },
    prompts: { type: "numbers", default: WORK.prompts, min: 1 },
    streams: { type: "numbers", default: WORK.streams, min: 1 },
    threads: { type: "number", default: availableParallelism(), min: 1 },
    isa: { type: "string" },
    "peer-isa": { type: "string" },
    out: { type: "string" },
  },
});
const { threads, reps, rounds, prompts, streams } = flags;
const work = { ...WORK, prompts, streams };

function modelFile(shape, type) {
  const folder = `${here}.cache`;
  mkdirSync(folder, { recursive: true });
  const file = `${folder}/${shape}-${type}.gguf`;
  if (!existsSync(file)) {
    console.error(`writing ${file}`);
    writeRandomModel(SHAPES[shape], shape, { [type]: file }, { deviation: 0.02 });
  }
  return file;
}

/** Runs one side in a process of its own; how much others used of the machine goes with it. */
function measure(script, options, environment = {}) {
  const ticksBefore = busyTicks();
  const begun = performance.now();
  const output = execFileSync(
    process.execPath,
    [`${here}${script}`, JSON.stringify({ ...options, work })],
    {
      env: { ...process.env, ...environment },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
      maxBuffer: 1 << 26,
    },
  );
  const seconds = (performance.now() - begun) / 1000;
  const busySeconds = ((busyTicks() - ticksBefore) * MS_PER_TICK) / 1000;
  const last = output.trim().split("\n").at(-1);
  return { ...JSON.parse(last), seconds, busyCores: busySeconds / seconds };
}

function runPeer(common, flashAttention, times) {
  return measure(
    "peer/run.mjs",
    { ...common, reps: times, warmups: times > 1 ? 1 : 0, flashAttention },
    { UV_THREADPOOL_SIZE: "1" },
  );
}

/** Tries both of the peer's attention settings once: the faster one is measured. */
function bestAttention(common) {
  const score = ({ results }) =>
    Object.values(results).reduce((product, { median: rate }) => product * rate, 1);
  const [on, off] = [true, false].map((setting) => score(runPeer(common, setting, 1)));
  return on >= off;
}

/** All rates of several runs, by the name of the work. */
function ratesOf(runs) {
  const names = Object.keys(runs[0].results);
  return Object.fromEntries(
    names.map((name) => [name, runs.flatMap(({ results }) => results[name].all)]),
  );
}

function compare(name, file, vocabulary) {
  const common = { threads, reps, vocabulary, file };
  const flashAttention = bestAttention(common);
  const mine = [];
  const theirs = [];
  for (let round = 0; round < rounds; round++) {
    console.error(`${name}: round ${round + 1} of ${rounds}`);
    mine.push(measure("ours.mjs", { ...common, isa: flags.isa ?? null }));
    theirs.push(runPeer(common, flashAttention, reps));
  }
  const [ours, peer] = [ratesOf(mine), ratesOf(theirs)];
  const rows = Object.keys(ours).map((each) => ({
    work: each,
    ours: round(median(ours[each])),
    peer: round(median(peer[each])),
    ratio: round(median(ours[each]) / median(peer[each]), 2),
  }));
  const least = (runs, field) => Math.min(...runs.map((run) => run[field]));
  const sides = { ours: mine, peer: theirs };
  const others = Object.fromEntries(
    Object.entries(sides).map(([side, runs]) => [
      side,
      { startMs: round(least(runs, "startMs")), residentMb: least(runs, "residentMb") },
    ]),
  );
  const { description, weightFormat } = mine[0].info;
  const readLimit = shareOfReadSpeed(file, ours["streams 1"], mine);
  return { name, weightFormat, device: description, flashAttention, rows, ...others, readLimit };
}

/** Each token of one stream reads the whole file: how close that is to reading memory at all. */
function shareOfReadSpeed(file, rates, runs) {
  if (rates === undefined) return null;
  const GBs = (median(rates) * statSync(file).size) / 1e9;
  const readGBs = median(runs.map((run) => run.readGBs));
  return { GBs: round(GBs), readGBs: round(readGBs), share: round(GBs / readGBs, 2) };
}

function round(value, digits = 1) {
  return Number(value.toFixed(digits));
}

installPeer();
limitPeer(flags["peer-isa"] ?? null);
const cases =
  flags.model === undefined
    ? flags.shapes
        .split(",")
        .flatMap((shape) =>
          flags.files
            .split(",")
            .map((type) => [`${shape} ${type}`, modelFile(shape, type), SHAPES[shape].vocabulary]),
        )
    : [[flags.model.split("/").at(-1), flags.model, WORK.vocabulary]];
const comparisons = cases.map((each) => compare(...each));
limitPeer(null);
const peerVersion = JSON.parse(
  readFileSync(`${here}peer/node_modules/node-llama-cpp/package.json`, "utf8"),
).version;
for (const { name, rows, ours, peer, weightFormat, readLimit } of comparisons) {
  console.log(`\n${name}, ${weightFormat} here`);
  console.table(rows);
  console.log(`start to first prompt done: ${ours.startMs} ms, peer ${peer.startMs} ms`);
  console.log(`peak memory: ${ours.residentMb} MB, peer ${peer.residentMb} MB`);
  if (readLimit === null) continue;
  const { GBs, readGBs, share } = readLimit;
  console.log(`1 stream reads ${GBs} GB/s of ${readGBs} that these threads can read: ${share}`);
}
if (flags.out !== undefined) {
  const report = {
    flags: { threads, reps, rounds, isa: flags.isa ?? null, peerIsa: flags["peer-isa"] ?? null },
    machine: describeMachine(),
    peer:
      `node-llama-cpp ${peerVersion}, UV_THREADPOOL_SIZE=1, ` +
      "better of flash attention on and off",
    unit: "tokens per second, median of all repetitions",
    work,
    comparisons,
  };
  mkdirSync(dirname(flags.out), { recursive: true });
  writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
}
