/**
 * node bench/cluster/kv-pool.mjs [--requests 40] [--rounds 2] [--prefixes 20] [--seed 1]
 *   [--shares 3,8] [--policies round-robin,kv] [--model DIR] [--out FILE]
 *
 * What it brings that workers fetch each other's keys and values: four workers on the CPU with one
 * thread each and a router, all processes of their own, with and without --kv-transfer, and with
 * a fifth worker that gives memory for all prefixes (--role kv), by the policies round-robin and
 * kv. Prompts begin with one of several prefixes, drawn by the seed, whose blocks are as many times
 * what one worker's device and host memory hold as --shares says: with 3 less than all four's, with
 * 8 twice as many. Two requests run at a time. After the measured ones a worker is killed (SIGKILL)
 * while it has a request, and as many follow. The fleets of one policy run together and get eight
 * of the same requests in turn: what else runs on the machine disturbs all. Each round has its own.
 * The file keeps a report for each share; those of other shares stay.
 *
 *   hitRate    cached of all prompt tokens, as clients are told in `usage`
 *   ttftP50, ttftP90    ms from the request to its first text, by the client's clock
 *   cpuMs      processor time of all workers for a request; other processes disturb it less
 *   received   blocks that workers took in from others
 *   killed     the same of requests sent after a worker's death: the first half, and later ones
 *   failed, wrong    requests that were not answered, or other than by a worker alone that reuses
 *              nothing (float32, each sampled by its own seed)
 *   othersBusy share of the machine's cores that processes outside this benchmark used
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readFlags } from "../../tools/flags.mjs";
import { busyTicks, describeMachine } from "../machine.mjs";
import { end, launch, saidBy, until, usageOf } from "./processes.mjs";
import { askStream } from "./stream-client.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 40, min: 4 },
    rounds: { type: "number", default: 2, min: 1 },
    prefixes: { type: "number", default: 20, min: 4 },
    seed: { type: "number", default: 1 },
    shares: { type: "string", default: "3,8" },
    policies: { type: "string", default: "round-robin,kv" },
    model: { type: "string", default: `${root}models/pocket` },
    out: { type: "string", published: `${root}bench/results/kv-pool.json` },
  },
});

const WORKERS = 4;
const AT_ONCE = 2;
/** Requests that a fleet gets before it is the other's turn. */
const TURN = 8;
const BLOCK = 16;
const PREFIX_TOKENS = 768;
const SUFFIX_TOKENS = 32;
const OUTPUT_TOKENS = 8;
const CONTEXT_TOKENS = 1024;
const PREFIX_BLOCKS = (flags.prefixes * PREFIX_TOKENS) / BLOCK;
/** Of the blocks that one worker holds; at least two prompts run. */
const DEVICE_SHARE = 0.4;
const DEVICE_BLOCKS_MIN = 110;
/** The memory that a worker of the role kv gives: all prefixes, and ends of prompts. */
const MEMORY_BLOCKS = Math.ceil(1.25 * PREFIX_BLOCKS);
const MS_PER_TICK = 10;
const LIMIT_MS = 60_000;
/** What the router follows of the workers' caches must have arrived. */
const SETTLING_MS = 1000;
const VOCABULARY = 4096;

/** Numbers from 0 to 1 by a seed (mulberry32). */
function randomBy(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Requests that warm caches and code, are measured, and see a worker's death. */
function makeTraffic(seed) {
  const random = randomBy(seed);
  const ids = (count) =>
    Array.from({ length: count }, () => 100 + Math.floor(random() * (VOCABULARY - 100)));
  const prefixes = Array.from({ length: flags.prefixes }, () => ids(PREFIX_TOKENS));
  const bodyOf = (prefix, seed) => ({
    prompt: [...prefix, ...ids(SUFFIX_TOKENS)],
    ...{ max_tokens: OUTPUT_TOKENS, temperature: 1, seed, ignore_eos: true },
    ...{ stream: true, stream_options: { include_usage: true } },
  });
  const drawn = (count, base) =>
    Array.from({ length: count }, (_, at) =>
      bodyOf(prefixes[Math.floor(random() * prefixes.length)], base + at),
    );
  return {
    warming: [
      ...prefixes.map((prefix, at) => bodyOf(prefix, at)),
      ...drawn(2 * flags.prefixes, 100),
    ],
    measured: drawn(flags.requests, 1000),
    behind: drawn(flags.requests, 2000),
  };
}

/** A process that serves, and its address. */
async function startServer(words) {
  const server = launch(process.execPath, [`${root}dist/cli/main.js`, ...words]);
  const found = () => {
    if (server.child.exitCode !== null) throw new Error(saidBy(server));
    return /(?:serving|routing) .*?(http:\/\/[\d.:]+)/.exec(saidBy(server))?.[1];
  };
  server.url = await until(words.slice(0, 2).join(" "), found);
  return server;
}

/** The bytes of a block, as a worker tells them. */
async function blockBytes(worker) {
  const metrics = await (await fetch(`${worker.url}/metrics`)).text();
  return Number(/perigee:cache_config_info\{.*bytes_per_block="(\d+)"/.exec(metrics)?.[1]);
}

const workerWords = (more) => [
  ...["worker", flags.model, "--device", "cpu", "--threads", "1", "--dtype", "float32"],
  ...["--port", "0", "--speculative", "off", "--context-tokens-max", String(CONTEXT_TOKENS)],
  ...["--answering-threads", "0", ...more],
];

/** Blocks of one worker's device and host memory. */
function levelsOf(share) {
  const all = Math.ceil(PREFIX_BLOCKS / share);
  const device = Math.max(DEVICE_BLOCKS_MIN, Math.floor(all * DEVICE_SHARE));
  return { device, host: Math.max(0, all - device) };
}

async function startFleet({ policy, transfer, memory, share }, bytes) {
  const { device, host } = levelsOf(share);
  const words = workerWords([
    ...["--kv-pool-bytes", String(device * bytes)],
    ...["--host-cache-bytes", String(host * bytes)],
    ...["--kv-transfer", transfer ? "on" : "off"],
  ]);
  const memoryBytes = String(MEMORY_BLOCKS * bytes);
  const kv = workerWords(["--role", "kv", "--host-cache-bytes", memoryBytes]);
  const all = Array.from({ length: WORKERS }, () => words);
  const workers = await Promise.all(all.map(startServer));
  if (memory) workers.push(await startServer(kv));
  const given = workers.flatMap(({ url }) => ["--worker", url]);
  const router = await startServer(["route", "--port", "0", "--policy", policy, ...given]);
  await until("the router's workers", async () => (await fetch(`${router.url}/health`)).ok);
  await sleep(SETTLING_MS);
  return { workers, router, sent: 0, sentBefore: null, over: false };
}

/** Sends bodies in their order, two at a time; `onSent` is told how many were sent. */
async function askAll(url, bodies, onSent = () => {}) {
  const answers = [];
  let next = 0;
  const one = async () => {
    while (next < bodies.length) {
      const at = next++;
      const body = JSON.stringify(bodies[at]);
      const headers = { "content-type": "application/json" };
      const asked = askStream(`${url}/v1/completions`, { headers, body, timeoutMs: LIMIT_MS });
      onSent(at);
      answers[at] = await asked;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return answers;
}

async function receivedBy(workers) {
  let blocks = 0;
  for (const { url } of workers) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const row = /^perigee:kv_transfer_blocks_total\{.*direction="received".*\} (\d+)$/m;
    blocks += Number(row.exec(metrics)?.[1] ?? 0);
  }
  return blocks;
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

const rounded = (value) => Number(value.toPrecision(4));

/** What answers say of hits and times. */
function summed(answers, right) {
  const told = answers.flatMap(({ usage }) => usage ?? []);
  const sum = (of) => told.reduce((total, usage) => total + of(usage), 0);
  const cached = sum((usage) => usage.prompt_tokens_details?.cached_tokens ?? 0);
  const firsts = answers.filter(({ error }) => error === null).map(({ firstMs }) => firstMs);
  return {
    hitRate: rounded(cached / sum((usage) => usage.prompt_tokens)),
    ttftP50: rounded(quantile(firsts, 0.5)),
    ttftP90: rounded(quantile(firsts, 0.9)),
    failed: answers.filter(({ error }) => error !== null).length,
    wrong: answers.filter(({ error, text }, at) => error === null && text !== right[at]).length,
  };
}

/** Sends bodies to all fleets, some to each in turn: what disturbs one disturbs the others. */
async function askInTurn(fleets, bodies) {
  const turns = Math.ceil(bodies.length / TURN);
  const answers = fleets.map(() => []);
  for (let turn = 0; turn < turns; turn++) {
    const own = bodies.slice(turn * TURN, (turn + 1) * TURN);
    // Each second turn goes backwards: none is always the first.
    const order = turn % 2 === 0 ? fleets : fleets.toReversed();
    for (const fleet of order) {
      const onSent = (at) => {
        fleet.sent = turn * TURN + at + 1;
      };
      answers[fleets.indexOf(fleet)].push(...(await askAll(fleet.router.url, own, onSent)));
    }
  }
  return answers;
}

/** Kills a fleet's first worker as soon as it has a request. */
async function killBusy(fleet) {
  const { url, child } = fleet.workers[0];
  while (!fleet.over) {
    const { load } = await (await fetch(`${url}/worker_info`)).json();
    if (load.runningRequests > 0) {
      child.kill("SIGKILL");
      fleet.sentBefore = fleet.sent;
      return;
    }
    await sleep(5);
  }
}

const countersOf = async ({ workers }) => {
  return { cpuMs: usageOf(workers).cpuMs, received: await receivedBy(workers) };
};

/** What each fleet's answers, processor time and received blocks are. */
async function measure(fleets, { bodies, right }) {
  const before = await Promise.all(fleets.map(countersOf));
  const answers = await askInTurn(fleets, bodies);
  const after = await Promise.all(fleets.map(countersOf));
  return fleets.map((_, at) => {
    const cpuMs = rounded((after[at].cpuMs - before[at].cpuMs) / bodies.length);
    const received = after[at].received - before[at].received;
    return { ...summed(answers[at], right), cpuMs, received };
  });
}

/** A worker of each fleet dies in the middle of requests. */
async function measureDeath(fleets, { bodies, right }) {
  const left = fleets.map(({ workers }) => workers.slice(1));
  const before = await Promise.all(left.map(receivedBy));
  const killed = Promise.all(fleets.map(killBusy));
  const answers = await askInTurn(fleets, bodies);
  for (const fleet of fleets) fleet.over = true;
  await killed;
  const after = await Promise.all(left.map(receivedBy));
  return fleets.map(({ sentBefore }, at) => {
    if (sentBefore === null) throw new Error("The worker that was to die had no request");
    const half = (sentBefore + bodies.length) >> 1;
    const part = (from, to) => summed(answers[at].slice(from, to), right.slice(from, to));
    const { failed, wrong } = part(0);
    return {
      ...{ sentBefore, atOnce: part(sentBefore, half), later: part(half) },
      ...{ failed, wrong, received: after[at] - before[at] },
    };
  });
}

/** The fleets of a policy: without transfers, with them, and with memory beside. */
async function runPolicy(policy, share, { traffic, right, bytes }) {
  const ticks = busyTicks();
  const ownMs = usageOf([process]).cpuMs;
  const startMs = performance.now();
  const settings = KINDS.map((kind) => ({ share, policy, ...kind }));
  const fleets = [];
  try {
    for (const setting of settings) fleets.push(await startFleet(setting, bytes));
    await askInTurn(fleets, traffic.warming);
    await sleep(SETTLING_MS);
    const rows = await measure(fleets, { bodies: traffic.measured, right: right.measured });
    const spent = usageOf([process]).cpuMs - ownMs;
    const busyMs = ((busyTicks() ?? 0) - (ticks ?? 0)) * MS_PER_TICK - spent;
    const wallMs = performance.now() - startMs;
    const othersBusy = rounded(Math.max(0, busyMs) / wallMs / cpus().length);
    const deaths = await measureDeath(fleets, { bodies: traffic.behind, right: right.behind });
    return settings.map((setting, at) => {
      return { ...setting, ...rows[at], othersBusy, killed: deaths[at] };
    });
  } finally {
    await Promise.all(fleets.flatMap(({ workers, router }) => [router, ...workers]).map(end));
  }
}

/** Texts of a worker alone that reuses no block. */
async function rightTexts(traffic) {
  const lone = await startServer(workerWords(["--prefix-caching", "off"]));
  const bytes = await blockBytes(lone);
  const textsOf = async (bodies) =>
    (await askAll(lone.url, bodies)).map(({ text, error }) => {
      if (error !== null) throw new Error(`the worker alone: ${error}`);
      return text;
    });
  const right = {
    measured: await textsOf(traffic.measured),
    behind: await textsOf(traffic.behind),
  };
  await end(lone);
  return { right, bytes };
}

const FIELDS = ["hitRate", "ttftP50", "ttftP90", "cpuMs", "received"];

/** Means of a setting's runs, and the sums of what must not be. */
function meansOf(setting, runs) {
  const own = runs.filter(
    ({ share, policy, transfer, memory }) =>
      share === setting.share &&
      policy === setting.policy &&
      transfer === setting.transfer &&
      memory === setting.memory,
  );
  const total = (pick) => own.reduce((sum, run) => sum + pick(run), 0);
  const of = (pick) => rounded(total(pick) / own.length);
  const phases = ["atOnce", "later"].map((name) => {
    const fields = ["hitRate", "ttftP50", "ttftP90"];
    return [name, Object.fromEntries(fields.map((f) => [f, of(({ killed }) => killed[name][f])]))];
  });
  const both = (field) => total((run) => run[field] + run.killed[field]);
  return {
    ...setting,
    ...Object.fromEntries(FIELDS.map((field) => [field, of((run) => run[field])])),
    killed: { ...Object.fromEntries(phases), received: of(({ killed }) => killed.received) },
    ...{ failed: both("failed"), wrong: both("wrong") },
  };
}

const POLICIES = flags.policies.split(",");
const SHARES = flags.shares.split(",").map(Number);
const KINDS = [
  { transfer: false, memory: false },
  { transfer: true, memory: false },
  { transfer: true, memory: true },
];
const SETTINGS = SHARES.flatMap((share) =>
  POLICIES.flatMap((policy) => KINDS.map((kind) => ({ share, policy, ...kind }))),
);
const startMs = performance.now();
const runs = [];
let blockSize = 0;
for (let round = 0; round < flags.rounds; round++) {
  const traffic = makeTraffic(flags.seed + round);
  const given = { traffic, ...(await rightTexts(traffic)) };
  blockSize = given.bytes;
  for (const share of SHARES) {
    for (const policy of POLICIES) {
      const all = (await runPolicy(policy, share, given)).map((run) => ({ round, ...run }));
      for (const run of all) console.error(JSON.stringify(run));
      runs.push(...all);
    }
  }
}
const seconds = Math.round((performance.now() - startMs) / 1000);
const ofShare = (list, share) => list.filter((each) => each.share === share);
const reports = SHARES.map((share) => ({
  share,
  command: `node bench/cluster/kv-pool.mjs ${process.argv.slice(2).join(" ")}`.trim(),
  machine: describeMachine(),
  note: `means of ${flags.rounds} rounds; failed and wrong are of all runs together`,
  seconds,
  ...{ workers: WORKERS, atOnce: AT_ONCE, requests: flags.requests, prefixes: flags.prefixes },
  ...{ prefixTokens: PREFIX_TOKENS, prefixBlocks: PREFIX_BLOCKS, blockBytes: blockSize },
  ...{ memoryBlocks: MEMORY_BLOCKS, levels: levelsOf(share) },
  rows: ofShare(SETTINGS, share).map((setting) => meansOf(setting, runs)),
  runs: ofShare(runs, share),
}));
const rows = reports.flatMap((report) => report.rows);
for (const row of rows) console.log(JSON.stringify(row));
const known = existsSync(flags.out) ? JSON.parse(readFileSync(flags.out, "utf8")).reports : [];
const others = known.filter(({ share }) => !SHARES.includes(share));
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${JSON.stringify({ reports: [...others, ...reports] }, null, 1)}\n`);
if (rows.some(({ failed, wrong }) => failed + wrong > 0)) process.exitCode = 1;
