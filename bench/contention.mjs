/**
 * node bench/contention.mjs [--shape smol135] [--file q4_0] [--model FILE.gguf] [--others 1,2]
 *     [--rounds 3] [--reps 2] [--prompts 512] [--streams 1,8] [--threads 2] [--out FILE]
 *
 * Tokens a second while other processes, each with one thread that never waits, want the same
 * cores: what is kept of the speed alone, beside the fair share, which is the cores over all
 * threads that want them. llama.cpp (through node-llama-cpp) with the same others. Prints a table;
 * writes JSON where --out says so.
 */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { readFlags } from "../tools/flags.mjs";
import { commandLine, describeMachine, median } from "./machine.mjs";
import { installPeer } from "./peer/install.mjs";
import { SHAPES } from "./shapes.mjs";
import { modelFile, prefersFlashAttention, ratesOf, round, runOurs, runPeer } from "./sides.mjs";
import { WORK } from "./work.mjs";

const cores = availableParallelism();
const { values: flags } = readFlags({
  options: {
    shape: { type: "string", default: "smol135" },
    file: { type: "string", default: "q4_0" },
    model: { type: "string" },
    others: { type: "numbers", default: [1, 2], min: 1 },
    rounds: { type: "number", default: 3, min: 1 },
    reps: { type: "number", default: 2, min: 1 },
    prompts: { type: "numbers", default: [512], min: 1 },
    streams: { type: "numbers", default: [1, 8], min: 1 },
    threads: { type: "number", default: cores, min: 1 },
    out: { type: "string" },
  },
});
const { threads, reps, prompts, streams } = flags;

/** Never waits; ends with its parent. */
const BUSY = "for (const parent = process.ppid; process.ppid === parent; );";

/** Runs `body` while `count` processes keep a core busy each, as far as they get one. */
function beside(count, body) {
  const busy = Array.from({ length: count }, () =>
    spawn(process.execPath, ["-e", BUSY], { stdio: "ignore" }),
  );
  try {
    return body();
  } finally {
    for (const child of busy) child.kill("SIGKILL");
  }
}

installPeer();
const common = {
  file: flags.model ?? modelFile(flags.shape, flags.file),
  vocabulary: flags.model === undefined ? SHAPES[flags.shape].vocabulary : WORK.vocabulary,
  threads,
  reps,
  work: { ...WORK, prompts, streams },
};
const flashAttention = prefersFlashAttention(common);
const counts = [0, ...flags.others];
const runs = new Map(counts.map((count) => [count, { ours: [], peer: [] }]));
for (let at = 0; at < flags.rounds; at++) {
  for (const count of counts) {
    console.error(`round ${at + 1} of ${flags.rounds}, ${count} others`);
    const { ours, peer } = runs.get(count);
    beside(count, () => {
      ours.push(runOurs(common));
      peer.push(runPeer(common, flashAttention));
    });
  }
}

/** Medians of one side by the name of the work. */
function mediansOf(count, side) {
  const rates = ratesOf(runs.get(count)[side]);
  return Object.fromEntries(Object.entries(rates).map(([name, all]) => [name, median(all)]));
}

const alone = { ours: mediansOf(0, "ours"), peer: mediansOf(0, "peer") };
const rows = flags.others.flatMap((others) => {
  const [ours, peer] = [mediansOf(others, "ours"), mediansOf(others, "peer")];
  return Object.keys(ours).map((work) => ({
    work,
    others,
    fairShare: round(Math.min(1, cores / (threads + others)), 2),
    kept: round(ours[work] / alone.ours[work], 2),
    peerKept: round(peer[work] / alone.peer[work], 2),
    ours: round(ours[work]),
    peer: round(peer[work]),
    ratio: round(ours[work] / peer[work], 2),
  }));
});
console.table(rows);
if (flags.out !== undefined) {
  const unit = "tokens per second, medians of all repetitions";
  const result = { command: commandLine(), machine: describeMachine(), unit, alone, rows };
  writeFileSync(flags.out, `${JSON.stringify(result, null, 2)}\n`);
}
