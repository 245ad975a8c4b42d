/** The two sides of a comparison, each measured in a process of its own. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { busyTicks } from "./machine.mjs";
import { writeRandomModel } from "./random-gguf.mjs";
import { SHAPES } from "./shapes.mjs";

const MS_PER_TICK = 10;
/** Speed does not depend on more elements of a tensor. */
const RANDOM = { deviation: 0.02, repeatAfter: 2 ** 20 };
const here = fileURLToPath(new URL(".", import.meta.url));

/** A GGUF of this shape and type with random weights, written once. */
export function modelFile(shape, type) {
  const folder = `${here}.cache`;
  mkdirSync(folder, { recursive: true });
  const file = `${folder}/${shape}-${type}.gguf`;
  if (!existsSync(file)) {
    console.error(`writing ${file}`);
    writeRandomModel(SHAPES[shape], shape, { [type]: file }, RANDOM);
  }
  return file;
}

/** Runs one side; how much of the machine was busy meanwhile goes with it. */
function measure(script, options, environment = {}) {
  const ticksBefore = busyTicks();
  const begun = performance.now();
  const output = execFileSync(process.execPath, [`${here}${script}`, JSON.stringify(options)], {
    env: { ...process.env, ...environment },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 26,
  });
  const seconds = (performance.now() - begun) / 1000;
  const busySeconds = ((busyTicks() - ticksBefore) * MS_PER_TICK) / 1000;
  const last = output.trim().split("\n").at(-1);
  return { ...JSON.parse(last), seconds, busyCores: busySeconds / seconds };
}

/** `common`: file, threads, reps, vocabulary and work. */
export function runOurs(common, isa = null) {
  return measure("ours.mjs", { ...common, isa });
}

export function runPeer(common, flashAttention) {
  const warmups = common.reps > 1 ? 1 : 0;
  return measure(
    "peer/run.mjs",
    { ...common, warmups, flashAttention },
    { UV_THREADPOOL_SIZE: "1" },
  );
}

/** Tries both of the peer's attention settings once: whether it is faster with flash attention. */
export function prefersFlashAttention(common) {
  const score = ({ results }) =>
    Object.values(results).reduce((product, { median: rate }) => product * rate, 1);
  const once = { ...common, reps: 1 };
  return score(runPeer(once, true)) >= score(runPeer(once, false));
}

/** All rates of several runs, by the name of the work. */
export function ratesOf(runs) {
  const names = Object.keys(runs[0].results);
  return Object.fromEntries(
    names.map((name) => [name, runs.flatMap(({ results }) => results[name].all)]),
  );
}

export function round(value, digits = 1) {
  return Number(value.toFixed(digits));
}
