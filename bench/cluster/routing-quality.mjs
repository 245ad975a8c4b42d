/**
 * node bench/cluster/routing-quality.mjs [--jobs 2] [--only trace,pool,unshared,shared,agents]
 *   [--minutes 59] [--seeds 1,2,3] [--trace FILE] [--out FILE]
 *
 * Every routing policy on fleets of simulated workers (h200-8b), on a simulated clock: hit rates,
 * times to the first token, between tokens and to the last, imbalance.
 *
 *   trace     Mooncake's conversations on 8 and 16 workers whose memory holds all of it, at several
 *             speeds of arrival
 *   pool      the same with the memory that one GPU has
 *   unshared  the same lengths and times, nothing in common: kv against least-loaded
 *   shared    groups behind one system prompt each, with memory for a part of them, all, and more
 *   agents    agents with tools and sub-agents
 *
 * The trace is looked for in PERIGEE_TRACES, then in ../shared/traces; without it, the cases that
 * need it are left out, and the result says so. Times are the simulated clock's: they do not depend
 * on the machine. Numbers are means over the seeds; `spread` is the most minus the least, which is
 * of the traffic where seeds make it: `worstSeed` compares kv with the best other seed by seed.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { ROUTING_POLICIES } from "../../dist/cluster/routing/index.js";
import {
  agents,
  costPreset,
  idealHitRate,
  readTrace,
  runFleet,
  sharedPrompts,
  traceRequests,
  workingSetTokens,
} from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const model = costPreset("h200-8b");
const TRACE_BLOCK = 512;
const BLOCK = 64;
const AGENT_TASKS = 12;
/** All blocks of the trace are some 183,000. */
const ALL_BLOCKS = 24_000;
const POOL_BLOCKS = Math.floor(model.poolTokens[0] / TRACE_BLOCK);
const SPEEDS = { 8: [1, 2, 3], 16: [2] };
const SHARED = {
  outputTokens: 250,
  rates: [5, 10, 15].map((perSecond) => ({ perSecond, seconds: 40 })),
};
/** Of the working set of shared prompts, by all workers together. */
const CAPACITIES = [0.25, 0.5, 1];

/** Each load of a kind: what is the same for all policies and seeds. */
function loadsOf(kind) {
  const traces = (kind, blocks, speeds) =>
    Object.entries(speeds).flatMap(([workers, list]) =>
      list.map((speedUp) => ({ kind, workers: Number(workers), speedUp, blocks })),
    );
  if (kind === "trace") return traces(kind, ALL_BLOCKS, SPEEDS);
  if (kind === "pool") return traces(kind, POOL_BLOCKS, { 8: [1] });
  if (kind === "unshared") return traces(kind, POOL_BLOCKS, { 8: [1] });
  if (kind === "agents") {
    return [8].map((workers) => ({
      kind,
      workers,
      speedUp: 1,
      blocks: POOL_BLOCKS * (TRACE_BLOCK / BLOCK),
    }));
  }
  const tokens = workingSetTokens(SHARED);
  return CAPACITIES.map((capacity) => {
    return {
      kind,
      workers: 8,
      speedUp: 1,
      capacity,
      blocks: Math.ceil((capacity * tokens) / 8 / BLOCK),
    };
  });
}

const policiesOf = (kind) => (kind === "unshared" ? ["kv", "least-loaded"] : ROUTING_POLICIES);
const blockTokensOf = (kind) => (["agents", "shared"].includes(kind) ? BLOCK : TRACE_BLOCK);

/** The same lengths and times, with contents that nothing else has. */
const unshared = ({ name, requests }) => ({
  name,
  requests: requests.map((request, row) => {
    const piece = { role: "user", name: [row, 77], tokens: request.promptTokens };
    return { ...request, pieces: [piece] };
  }),
});

let trace = null;
async function trafficOf({ kind, seed }, { tracePath, minutes }) {
  if (kind === "agents") return agents({ seed, tasks: AGENT_TASKS });
  if (kind === "shared") return sharedPrompts({ ...SHARED, seed });
  trace ??= await readTrace(tracePath, TRACE_BLOCK);
  const traffic = traceRequests(trace, { name: kind, seed, untilMs: minutes * 60_000 });
  return kind === "unshared" ? unshared(traffic) : traffic;
}

async function runCase(job, settings) {
  const traffic = await trafficOf(job, settings);
  const blockTokens = blockTokensOf(job.kind);
  if (job.policy === "ideal") return { ...job, hitRate: idealHitRate(traffic, blockTokens) };
  const { workers, policy, blocks, speedUp, seed } = job;
  const result = runFleet({
    ...{ workers, policy, model, traffic, speedUp, seed, blockTokens },
    blocks: [blocks, 0, 0],
  });
  const { hitRate, ttftMs, tbtMs, totalMs, imbalance, busy, requests, openReservations } = result;
  if (openReservations !== 0) throw new Error(`${policy} left ${openReservations} reservations`);
  return {
    ...{ ...job, hitRate, imbalance, busy, requests },
    ...{ ttftMean: ttftMs.mean, ttftP50: ttftMs.p50, ttftP90: ttftMs.p90, ttftP99: ttftMs.p99 },
    ...{ tbtP50: tbtMs.p50, tbtP90: tbtMs.p90, totalMean: totalMs.mean, totalP90: totalMs.p90 },
  };
}

if (!isMainThread) {
  parentPort.on("message", async (job) => {
    parentPort.postMessage(await runCase(job, workerData));
  });
}

const FIELDS = [
  ...["hitRate", "ttftMean", "ttftP50", "ttftP90", "ttftP99", "tbtP50", "tbtP90"],
  ...["totalMean", "totalP90", "imbalance", "busy"],
];
const rounded = (value) => Number(value.toPrecision(4));

/** Runs the jobs on threads; a thread takes the next one when it is done. */
function runAll(jobs, threads, settings) {
  const results = [];
  const left = [...jobs];
  const startedMs = performance.now();
  return new Promise((resolve, reject) => {
    for (let thread = 0; thread < Math.min(threads, jobs.length); thread++) {
      const worker = new Worker(new URL(import.meta.url), { workerData: settings });
      const next = () => {
        const job = left.shift();
        if (job !== undefined) worker.postMessage(job);
        else worker.terminate();
      };
      worker.on("message", (result) => {
        results.push(result);
        const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
        process.stderr.write(`\r${results.length} of ${jobs.length}, ${seconds} s `);
        if (results.length === jobs.length) resolve(results);
        next();
      });
      worker.on("error", reject);
      next();
    }
  });
}

/** Means and spreads of the seeds. */
function summed(load, policy, results) {
  const own = results.filter((r) => r.policy === policy && sameLoad(r, load));
  const row = { policy };
  for (const field of FIELDS) {
    row[field] = rounded(own.reduce((sum, r) => sum + r[field], 0) / own.length);
  }
  const spreadOf = (field) => {
    const values = own.map((r) => r[field]);
    return rounded(Math.max(...values) - Math.min(...values));
  };
  return { ...row, spread: { hitRate: spreadOf("hitRate"), ttftP90: spreadOf("ttftP90") } };
}

const sameLoad = (a, b) =>
  a.kind === b.kind && a.workers === b.workers && a.speedUp === b.speedUp && a.blocks === b.blocks;

/** What was wanted of kv, and what came. */
function verdictOf(rows, ideal, results) {
  const kv = rows.find(({ policy }) => policy === "kv");
  const others = rows.filter(({ policy }) => policy !== "kv");
  const nearest = others.reduce((best, row) => (row.ttftP90 < best.ttftP90 ? row : best));
  const bestHits = others.reduce((best, row) => (row.hitRate > best.hitRate ? row : best));
  return {
    ofIdeal: ideal > 0 ? rounded(kv.hitRate / ideal) : null,
    ttftP90ToNext: rounded(kv.ttftP90 / nearest.ttftP90),
    next: nearest.policy,
    worstSeed: rounded(Math.max(...seedRatios(results))),
    bySpread: nearest.ttftP90 - kv.ttftP90 > Math.max(nearest.spread.ttftP90, kv.spread.ttftP90),
    hitsToNext: bestHits.hitRate > 0 ? rounded(kv.hitRate / bestHits.hitRate) : null,
  };
}

/** By seed: kv's p90 of the time to the first token, over that of the best other policy. */
function seedRatios(results) {
  const routed = results.filter(({ policy }) => policy !== "ideal");
  return [...new Set(routed.map(({ seed }) => seed))].map((seed) => {
    const own = routed.filter((result) => result.seed === seed);
    const others = own.filter(({ policy }) => policy !== "kv").map(({ ttftP90 }) => ttftP90);
    return own.find(({ policy }) => policy === "kv").ttftP90 / Math.min(...others);
  });
}

function lineOf(row) {
  const times = [row.ttftP50, row.ttftP90, row.ttftP99].map((ms) => Math.round(ms)).join(" / ");
  return [
    `  ${row.policy.padEnd(13)} hits ${row.hitRate.toFixed(3)}  ttft ${times}`,
    `tbt p90 ${row.tbtP90.toFixed(1)}  total ${Math.round(row.totalMean)}`,
    `imbalance ${row.imbalance.toFixed(2)}  busy ${row.busy.toFixed(2)}`,
  ].join("  ");
}

async function main() {
  const { values: flags } = readFlags({
    options: {
      jobs: { type: "number", default: 2, min: 1 },
      only: { type: "string", default: "trace,pool,unshared,shared,agents" },
      minutes: { type: "number", default: 60, min: 1 },
      seeds: { type: "string", default: "1,2,3" },
      trace: { type: "string" },
      out: { type: "string", published: `${root}bench/results/routing-quality.json` },
    },
  });
  const folder = process.env.PERIGEE_TRACES ?? join(root, "..", "shared", "traces");
  const tracePath = flags.trace ?? join(folder, "conversation_trace.jsonl");
  const hasTrace = existsSync(tracePath);
  if (!hasTrace) console.error(`No trace at ${tracePath}: cases that need it are left out`);
  const seeds = flags.seeds.split(",").map(Number);
  const kinds = flags.only
    .split(",")
    .filter((kind) => hasTrace || kind === "shared" || kind === "agents");
  const loads = kinds.flatMap(loadsOf);
  const jobs = loads.flatMap((load) =>
    [...policiesOf(load.kind), "ideal"].flatMap((policy) =>
      seeds.map((seed) => ({ ...load, policy, seed })),
    ),
  );
  // The hit rate of one endless cache depends on the traffic alone.
  const needed = jobs.filter(
    (job, at) =>
      job.policy !== "ideal" ||
      jobs.findIndex((j) => j.policy === "ideal" && j.kind === job.kind && j.seed === job.seed) ===
        at,
  );
  const results = await runAll(needed, flags.jobs, { tracePath, minutes: flags.minutes });
  const idealOf = (kind) => {
    const own = results.filter((r) => r.policy === "ideal" && r.kind === kind);
    return rounded(own.reduce((sum, r) => sum + r.hitRate, 0) / own.length);
  };
  const report = {
    command: `node bench/cluster/routing-quality.mjs ${process.argv.slice(2).join(" ")}`.trim(),
    machine: describeMachine(),
    note: "a simulated clock: times do not depend on the machine",
    model: model.name,
    seeds,
    minutes: flags.minutes,
    traceFound: hasTrace,
    loads: loads.map((load) => {
      const rows = policiesOf(load.kind).map((policy) => summed(load, policy, results));
      const ideal = idealOf(load.kind);
      const own = results.filter((result) => sameLoad(result, load));
      return { ...load, ideal, verdict: verdictOf(rows, ideal, own), policies: rows };
    }),
  };
  process.stderr.write("\n");
  for (const { policies, verdict, ...load } of report.loads) {
    console.log(JSON.stringify({ ...load, ...verdict }));
    for (const row of policies) console.log(lineOf(row));
  }
  mkdirSync(dirname(flags.out), { recursive: true });
  writeFileSync(flags.out, `${JSON.stringify(report, null, 1)}\n`);
}

if (isMainThread) await main();
