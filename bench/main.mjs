/**
 * npm run bench -- [--shapes smol135,qwen05] [--files q4_0,q4_k_m,q8_0,f16] [--model FILE.gguf]
 *     [--rounds 3] [--reps 3] [--prompts 512,4096] [--streams 1,8,16] [--threads 2] [--isa avx2]
 *     [--peer-isa haswell] [--flash-attention try|on|off] [--out FILE]
 *
 * Perigee beside llama.cpp (through node-llama-cpp, at its best setting) on the same files, which
 * have random weights, or on one that is given. Both sides take turns. Prints tables; writes JSON
 * where --out says so. How much of the memory's read speed one stream uses means something where
 * the file is larger than the last cache (qwen15). --isa limits our instructions, --peer-isa leaves
 * llama.cpp only that variant of its CPU library. Which of its attention settings is faster is
 * tried with all of the work, unless --flash-attention says it.
 */
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, median } from "./machine.mjs";
import { installPeer, limitPeer } from "./peer/install.mjs";
import { SHAPES } from "./shapes.mjs";
import { modelFile, prefersFlashAttention, ratesOf, round, runOurs, runPeer } from "./sides.mjs";
import { WORK } from "./work.mjs";

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
    "flash-attention": { type: "string", default: "try" },
    out: { type: "string" },
  },
});
const { threads, reps, rounds, prompts, streams } = flags;
const work = { ...WORK, prompts, streams };
const attention = flags["flash-attention"];
if (!["try", "on", "off"].includes(attention)) {
  throw new Error(`--flash-attention must be try, on or off, current value is ${attention}`);
}

function compare(name, file, vocabulary) {
  const common = { threads, reps, vocabulary, file, work };
  const flashAttention = attention === "try" ? prefersFlashAttention(common) : attention === "on";
  const mine = [];
  const theirs = [];
  for (let at = 0; at < rounds; at++) {
    console.error(`${name}: round ${at + 1} of ${rounds}`);
    mine.push(runOurs(common, flags.isa));
    theirs.push(runPeer(common, flashAttention));
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
const peerVersion = JSON.parse(
  readFileSync(`${here}peer/node_modules/node-llama-cpp/package.json`, "utf8"),
).version;
const comparisons = [];
// One after the other, so that a run that is cut off leaves what it has.
for (const each of cases) {
  comparisons.push(compare(...each));
  print(comparisons.at(-1));
  if (flags.out !== undefined) write(flags.out);
}
limitPeer(null);

function print({ name, rows, ours, peer, weightFormat, readLimit }) {
  console.log(`\n${name}, ${weightFormat} here`);
  console.table(rows);
  console.log(`start to first prompt done: ${ours.startMs} ms, peer ${peer.startMs} ms`);
  console.log(`peak memory: ${ours.residentMb} MB, peer ${peer.residentMb} MB`);
  if (readLimit === null) return;
  const { GBs, readGBs, share } = readLimit;
  console.log(`1 stream reads ${GBs} GB/s of ${readGBs} that these threads can read: ${share}`);
}

function write(file) {
  const report = {
    flags: { threads, reps, rounds, isa: flags.isa ?? null, peerIsa: flags["peer-isa"] ?? null },
    machine: describeMachine(),
    peer:
      `node-llama-cpp ${peerVersion}, UV_THREADPOOL_SIZE=1, ` +
      (attention === "try"
        ? "better of flash attention on and off"
        : `flash attention ${attention}`),
    unit: "tokens per second, median of all repetitions",
    work,
    comparisons,
  };
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
}
