// node bench/gpu/smoke.mjs [--only norm,embed] [--small] [--jobs 8] [--limit 120] [--case-limit 30]
//                          [--verbose] [--json FILE]
//
// Runs every op of the cuda device beside its definition, on random inputs, with all new device
// memory poisoned. Needs a GPU and the build (npm run build); prints a row per op and exits 1 on a
// mismatch. Cases are in bench/gpu/cases/, a file per kind of op; --small takes a few of each.
//
// Definitions take most of the time, so that several processes work at once. One that dies or that
// needs more than --case-limit seconds is named with its case, and the others go on; what has not
// begun after --limit seconds is not run. --jobs 1 keeps all in this process, as compute-sanitizer
// wants it; nothing can end a case that hangs there, but --verbose says which one it is.
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { readFlags } from "../../tools/flags.mjs";
import { giveUp, openOrGiveUp, requireBuild, writeJson } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CaseDealer } = await import("./case-dealer.mjs");
const { Pair } = await import("./pair.mjs");
const { listCases, openTested, runCase } = await import("./smoke-cases.mjs");

const { values: flags } = readFlags({
  options: {
    only: { type: "string" },
    small: { type: "boolean", default: false },
    jobs: { type: "number", default: defaultJobs(), min: 1 },
    limit: { type: "number", default: 120 },
    "case-limit": { type: "number", default: 30 },
    verbose: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const selection = { only: flags.only?.split(",") ?? null, small: flags.small };
const limits = { all: flags.limit, each: flags["case-limit"] };
const slowestShown = 5;
const failuresShown = 40;

/** Half of the cores: the driver and the compiler of JavaScript have threads, too. */
function defaultJobs() {
  return Math.max(1, Math.min(8, availableParallelism() >> 1));
}

const say = (line) => {
  if (flags.verbose) console.log(line);
};

/** Compiles all kernels, once for all processes. */
async function prepare(settings) {
  const onProgress = ({ file, cached }) => say(`${cached ? "cached  " : "compiled"} ${file}`);
  const device = await openOrGiveUp(() => openTested(settings, { onProgress }));
  const { description } = device;
  device.dispose();
  return description;
}

/**
 * A folder with copies of the compiled kernels. Which product is fastest is kept beside kernels:
 * what is timed while other processes work must not become the user's choice.
 */
function ownCache({ cacheFolder }) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-smoke-"));
  if (existsSync(cacheFolder)) cpSync(cacheFolder, folder, { recursive: true });
  return folder;
}

/** What the cases found so far. */
class Findings {
  rows = new Map();
  results = [];
  failures = [];

  begin = ({ op, name }) => say(`${op} ${name} …`);

  add = (result) => {
    const { op, name, verdicts, stack, seconds } = result;
    const row = this.rows.get(op) ?? { checks: 0, failed: 0, worst: 0 };
    this.rows.set(op, row);
    this.results.push(result);
    const worst = Math.max(0, ...verdicts.map(({ error }) => error));
    say(`${op} ${name}: ${worst.toExponential(2)}, ${seconds.toFixed(2)} s`);
    for (const { error, excess, detail } of verdicts) {
      row.checks++;
      row.worst = Number.isNaN(error) ? Number.NaN : Math.max(row.worst, error);
      if (excess <= 0) continue;
      row.failed++;
      this.failures.push(`${op}, ${name}: ${detail}`);
    }
    if (stack !== null) say(stack);
  };

  slowest() {
    return this.results.toSorted((a, b) => b.seconds - a.seconds).slice(0, slowestShown);
  }
}

/** Runs cases in this process; how many did not begin. */
async function runHere(cases, settings, findings) {
  const device = await openTested(settings);
  const pair = new Pair(device);
  const deadline = performance.now() + limits.all * 1000;
  for (const [place, each] of cases.entries()) {
    if (performance.now() > deadline) return cases.length - place;
    findings.begin(each);
    const result = await runCase(pair, each);
    findings.add(result);
    if (result.broken) return cases.length - place - 1;
  }
  device.dispose();
  return 0;
}

/** Runs cases; how many did not begin. */
function runAll(cases, settings, findings) {
  const jobs = Math.floor(flags.jobs);
  if (jobs === 1) return runHere(cases, settings, findings);
  const { begin: onBegin, add: onResult } = findings;
  const work = { settings, selection };
  return new CaseDealer(cases, { jobs, limits, work, onBegin, onResult }).run();
}

function print({ rows, failures }) {
  console.log("op                  checks  failed  worst ‖out - ref‖ / ‖ref‖");
  const count = (value, width) => String(value).padStart(width);
  for (const [op, { checks, failed, worst }] of rows) {
    const counts = `${count(checks, 6)}${count(failed, 8)}`;
    console.log(`${op.padEnd(20)}${counts}  ${worst.toExponential(2)}`);
  }
  for (const failure of failures.slice(0, failuresShown)) console.log(`FAILED ${failure}`);
}

const started = performance.now();
const secondsSince = (then) => (performance.now() - then) / 1000;
const cases = await listCases(selection);
if (cases.length === 0) giveUp(`Cannot run ${flags.only}: no such op has cases`);
const settings = cudaFromEnvironment();
const description = await prepare(settings);
console.log(`${description}; open in ${(secondsSince(started) * 1000).toFixed(0)} ms`);

const findings = new Findings();
// In the order of cases, whichever result comes first.
for (const { op } of cases) findings.rows.set(op, { checks: 0, failed: 0, worst: 0 });
const cacheFolder = ownCache(settings);
let notRun = 0;
try {
  notRun = await runAll(cases, { ...settings, cacheFolder }, findings);
} finally {
  rmSync(cacheFolder, { recursive: true, force: true });
}
if (notRun > 0) findings.failures.push(`${notRun} of ${cases.length} cases did not begin`);

print(findings);
for (const { op, name, seconds } of findings.slowest()) {
  say(`slow ${seconds.toFixed(2)} s: ${op}, ${name}`);
}
const { failures } = findings;
const rows = Object.fromEntries(findings.rows);
writeJson(flags.json, {
  description,
  seconds: secondsSince(started),
  cases: cases.length,
  rows,
  failures,
});
const took = `${cases.length} cases in ${secondsSince(started).toFixed(1)} s`;
console.log(`${failures.length === 0 ? "all good" : `${failures.length} failed`}; ${took}`);
process.exit(failures.length === 0 ? 0 : 1);
