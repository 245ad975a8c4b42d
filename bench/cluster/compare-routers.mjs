/**
 * node bench/cluster/compare-routers.mjs [--only "perigee kv;smg cache_aware"] [--seeds 3]
 *   [--traffic conversation|agents|shared] [--until 240] [--requests N] [--rate-scale 2]
 *   [--speedup 1] [--workers 8] [--per-process 4] [--blocks 55285,0,0] [--warming 120] [--add]
 *   [--out FILE] [--against "perigee kv"]
 *
 * Routers one after the other before the same mock workers, with the same requests over HTTP: ours,
 * and others' from their packages (--list names them). Each run has a new fleet with empty caches.
 * Results are added to those in --out with --add: a row of the same router, traffic and seed is
 * replaced. Each router runs once with each seed: --seeds 3 are the seeds 1 to 3, --seeds 4,7 these
 * two. At the end stand medians and spreads, and where the router of --against is better or worse
 * than each other: seed by seed, by more than the spread of the differences.
 *
 *   conversation  Mooncake's trace, looked for in PERIGEE_TRACES, then in ../shared/traces
 *   agents, shared   of the simulator: agents with tools; groups behind one system prompt each
 *
 *   hitRate     cached of all prompt tokens, as the workers count them
 *   usageHits   the same as clients are told in `usage`; null where a router does not tell
 *   imbalance   work of the busiest worker over the mean, by the cost model's factors
 *   routerMs    processor time of the router's processes for a request, ms
 *   fleetMs, helpersMs   of the workers' processes, and of what else a router needs
 *   othersBusy  share of the machine's cores that processes outside this benchmark used
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { costPreset } from "../../dist/simulator/index.js";
import { readFlags, refuse } from "../../tools/flags.mjs";
import { busyTicks, describeMachine } from "../machine.mjs";
import { programsOf, ROUTERS, startFleet } from "./compared-routers.mjs";
import { end, folder, launch, saidBy, until, usageOf } from "./processes.mjs";
import { summaryLines, verdictLines } from "./router-verdicts.mjs";
import { askStream } from "./stream-client.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const TRAFFICS = ["conversation", "agents", "shared"];
const WARMING_AT_ONCE = 8;
const MS_PER_TICK = 10;
/** What a router follows must have arrived before it is measured. */
const SETTLING_MS = 3000;

const { values: flags } = readFlags({
  options: {
    only: { type: "string", default: Object.keys(ROUTERS).join(";") },
    seeds: { type: "string", default: "1" },
    traffic: { type: "string", default: "conversation" },
    until: { type: "number", default: 240, min: 1 },
    requests: { type: "number", min: 1 },
    "rate-scale": { type: "number", default: 2, min: 0.001 },
    speedup: { type: "number", default: 1, min: 0.001 },
    workers: { type: "number", default: 8, min: 1 },
    "per-process": { type: "number", default: 4, min: 1 },
    blocks: { type: "string" },
    warming: { type: "number", default: 120, min: 0 },
    against: { type: "string", default: "perigee kv" },
    "cost-model": { type: "string", default: "h200-8b" },
    add: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    out: { type: "string", published: join(root, "bench/results/routers.json") },
  },
});

async function main() {
  if (flags.list) {
    console.log(Object.keys(ROUTERS).join("\n"));
    return;
  }
  const names = flags.only.split(";").map((name) => name.trim());
  const wrong = names.find((name) => ROUTERS[name] === undefined);
  if (wrong !== undefined) refuse(`Cannot start ${wrong}: --list names all routers`);
  if (!TRAFFICS.includes(flags.traffic)) {
    refuse(`Cannot send ${flags.traffic}: --traffic must be one of ${TRAFFICS.join(", ")}`);
  }
  const report = readReport();
  for (const seed of seedsOf(flags.seeds)) {
    for (const name of names) {
      const row = await rowOf(name, seed);
      console.log(lineOf(row));
      const at = report.rows.findIndex((other) => isSameRun(other, row));
      if (at < 0) report.rows.push(row);
      else report.rows[at] = row;
      write(report);
    }
  }
  for (const line of summaryLines(report.rows)) console.log(line);
  for (const line of verdictLines(report.rows, flags.against)) console.log(line);
}

/** A number of seeds, or a list of them. */
function seedsOf(text) {
  const numbers = text.split(",").map(Number);
  if (numbers.some((seed) => !Number.isSafeInteger(seed) || seed < 1)) {
    refuse(`Cannot use --seeds ${text}: it must be a number of seeds, or seeds with commas`);
  }
  return numbers.length > 1 ? numbers : Array.from({ length: numbers[0] }, (_, at) => at + 1);
}

/** A run, or why there is none. */
async function rowOf(name, seed) {
  const base = {
    ...{ router: name, traffic: flags.traffic, seed, workers: flags.workers },
    ...{ speedup: flags.speedup, rateScale: flags["rate-scale"] },
    ...(flags.requests === undefined ? {} : { requests: flags.requests }),
    untilSeconds: flags.until,
  };
  const processes = [];
  try {
    return { ...base, ...(await measure(name, seed, processes)) };
  } catch (error) {
    const said = processes.map((one) => saidBy(one).slice(-800)).join("\n");
    console.error(`${name}: ${error.stack}\n${said}`);
    return { ...base, failed: error.message };
  } finally {
    for (const one of processes.toReversed()) await end(one);
  }
}

async function measure(name, seed, processes) {
  const wanted = ROUTERS[name];
  const { model, reads } = wanted;
  const bin = programsOf(wanted);
  const { workers, speedup, blocks } = flags;
  const made = await startFleet({
    ...{ workers, speedup, blocks, model },
    ...{ perProcess: flags["per-process"], costModel: flags["cost-model"] },
  });
  processes.push(...made.processes);
  const { urls, routers, helpers } = await wanted.start(bin, made.fleet);
  processes.push(...helpers, ...routers);
  for (const url of urls) await until(name, () => isAnswering(url, model));
  await sleep(SETTLING_MS);
  await warm(urls, model);
  await sleep(SETTLING_MS);
  const usages = () => [routers, made.processes, helpers].map((list) => usageOf(list).cpuMs);
  const before = { cpu: usages(), counters: await countersOf(made.fleet), busy: busyTicks() };
  const startMs = performance.now();
  const { load, cpuMs: loadCpuMs } = await runLoad({ urls, model, seed });
  const seconds = (performance.now() - startMs) / 1000;
  const after = { cpu: usages(), counters: await countersOf(made.fleet), busy: busyTicks() };
  const spent = after.cpu.map((ms, part) => ms - before.cpu[part]);
  const capacityMs = seconds * 1000 * cpus().length;
  const busyMs = (after.busy - before.busy) * MS_PER_TICK;
  const ownMs = spent.reduce((sum, ms) => sum + ms, loadCpuMs);
  return {
    ...{ reads, requests: load.completed, errors: load.errors, idealHitRate: load.idealHitRate },
    ...fleetResult(before.counters, after.counters),
    usageHits: load.hitRate > 0 ? rounded(load.hitRate) : null,
    ttftMs: roundedAll(load.ttftMs),
    tbtMs: roundedAll(load.tbtMs),
    routerMs: rounded(spent[0] / load.completed),
    fleetMs: rounded(spent[1] / load.completed),
    helpersMs: rounded(spent[2] / load.completed),
    tokensOut: rounded(load.outputTokens / load.completed),
    tokensIn: rounded(load.promptTokens / load.withUsage),
    rssMiB: Math.round(usageOf(routers).rssMiB),
    seconds: rounded(seconds),
    ownBusy: rounded(ownMs / capacityMs),
    othersBusy: rounded(Math.max(0, busyMs - ownMs) / capacityMs),
  };
}

const isAnswering = async (url, model) => {
  const answer = await chat(url, model, "Are you there?", 2);
  return answer.error === null;
};

function chat(url, model, content, tokens) {
  const common = { model, max_tokens: tokens, temperature: 0, stream: true, ignore_eos: true };
  return askStream(`${url}/v1/chat/completions`, {
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...common, messages: [{ role: "user", content }] }),
    timeoutMs: 30_000,
  });
}

/** Requests that are like no other: compiled code, open connections, speeds of workers. */
async function warm(urls, model) {
  let next = 0;
  const client = async () => {
    while (next < flags.warming) {
      const at = next++;
      const content = `${at} warm words of ${at} `.repeat(300);
      await chat(urls[at % urls.length], model, content, 100);
    }
  };
  await Promise.all(Array.from({ length: WARMING_AT_ONCE }, client));
}

/** The load in a process of its own, and that one's processor time. */
async function runLoad({ urls, model, seed }) {
  const out = join(folder, "load.json");
  const words = [
    ...[join(root, "bench/cluster/load.mjs"), "--url", urls.join(","), "--api", "chat"],
    ...["--traffic", trafficFile(), "--seed", `${seed}`, "--model", model, "--ideal"],
    ...["--rate-scale", `${flags["rate-scale"]}`, "--speedup", `${flags.speedup}`],
    ...["--until", `${flags.until / flags["rate-scale"]}`, "--out", out],
    ...(flags.requests === undefined ? [] : ["--requests", `${flags.requests}`]),
  ];
  const one = launch(process.execPath, words);
  let cpuMs = 0;
  const sampling = setInterval(() => {
    cpuMs = Math.max(cpuMs, usageOf([one]).cpuMs);
  }, 1000);
  const code = await new Promise((resolve) => one.child.once("exit", resolve));
  clearInterval(sampling);
  if (code !== 0) throw new Error(`the load ended with ${code}: ${saidBy(one).slice(-500)}`);
  return { load: JSON.parse(readFileSync(out, "utf8")), cpuMs };
}

function trafficFile() {
  if (flags.traffic !== "conversation") return flags.traffic;
  const traces = process.env.PERIGEE_TRACES ?? join(root, "..", "shared", "traces");
  const file = join(traces, "conversation_trace.jsonl");
  if (!existsSync(file)) throw new Error(`Cannot send the trace: there is none at ${file}`);
  return file;
}

/** What each worker has counted so far. */
async function countersOf(fleet) {
  return await Promise.all(
    fleet.map(async ({ url }) => {
      const text = await (await fetch(`${url}/metrics`)).text();
      const lines = text.split("\n").filter((line) => line.startsWith("perigee:"));
      const counted = (name) => {
        const found = lines.find((line) => line.startsWith(`perigee:${name}{`));
        return Number(found?.slice(found.lastIndexOf(" ")) ?? 0);
      };
      const hits = lines.filter((line) => line.startsWith("perigee:kv_cache_hit_tokens_total{"));
      return {
        steps: counted("steps_total"),
        prompt: counted("prompt_tokens_total"),
        generated: counted("generation_tokens_total"),
        hits: hits.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0),
      };
    }),
  );
}

function fleetResult(before, after) {
  const { step } = costPreset(flags["cost-model"]);
  const spent = after.map((counters, place) =>
    Object.fromEntries(
      Object.entries(counters).map(([name, value]) => [name, value - before[place][name]]),
    ),
  );
  const work = spent.map(
    ({ steps, prompt, hits, generated }) =>
      steps * step.stepMs + (prompt - hits) * step.promptTokenMs + generated * step.decodingMs,
  );
  const sumOf = (name) => spent.reduce((sum, counters) => sum + counters[name], 0);
  const mean = work.reduce((sum, ms) => sum + ms, 0) / work.length;
  return {
    hitRate: rounded(sumOf("hits") / sumOf("prompt")),
    imbalance: rounded(Math.max(...work) / mean),
  };
}

const rounded = (value) => Number(value.toPrecision(4));
const roundedAll = (values) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, rounded(value)]));

const KEYS = ["router", "traffic", "seed", "workers", "speedup", "rateScale", "untilSeconds"];
const isSameRun = (a, b) => KEYS.every((key) => a[key] === b[key]);

function readReport() {
  const told = `node bench/cluster/compare-routers.mjs ${process.argv.slice(2).join(" ")}`;
  const kept = flags.add && existsSync(flags.out) ? JSON.parse(readFileSync(flags.out)) : null;
  const packages = [...new Set(Object.values(ROUTERS).flatMap(({ packages }) => packages ?? []))];
  return {
    commands: [...new Set([...(kept?.commands ?? []), told])],
    machine: describeMachine(),
    versions: packages.filter((name) => name.includes("==")),
    rows: kept?.rows ?? [],
  };
}

/** A row a line: changes are seen. */
function write({ rows, ...report }) {
  const head = JSON.stringify(report, null, 1).slice(0, -2);
  const lines = rows.map((row) => `  ${JSON.stringify(row)}`).join(",\n");
  writeFileSync(flags.out, `${head},\n "rows": [\n${lines}\n ]\n}\n`);
}

function lineOf(row) {
  if (row.failed !== undefined) return `${row.router.padEnd(28)} failed: ${row.failed}`;
  const { p50, p90, p99 } = row.ttftMs;
  const failed = Object.entries(row.errors).map(([what, count]) => `${count} x ${what}`);
  return [
    `${row.router.padEnd(28)} hits ${row.hitRate.toFixed(3)} of ${row.idealHitRate.toFixed(3)}`,
    `ttft ${[p50, p90, p99].map(Math.round).join(" / ")}  imbalance ${row.imbalance.toFixed(2)}`,
    `router ${row.routerMs.toFixed(2)} ms ${row.rssMiB} MiB  fleet ${row.fleetMs.toFixed(1)} ms`,
    `own ${row.ownBusy.toFixed(2)} others ${row.othersBusy.toFixed(2)}  ${failed.join(", ")}`,
  ].join("  ");
}

await main();
