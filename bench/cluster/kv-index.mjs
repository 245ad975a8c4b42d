/**
 * node --expose-gc bench/cluster/kv-index.mjs [--blocks 1000000] [--workers 16,128,1024]
 *   [--operations 4000000] [--peer] [--out FILE]
 *
 * The index of a fleet's blocks, on requests of index-workload.mjs. First it is filled to `blocks`
 * blocks of workers; then requests look up, store what is new and remove as much, counted as stored
 * + removed + looked-up blocks, on one core and to completion, naming of tokens included; then the
 * same arrives at half a million operations a second, and the time from arrival to completion is
 * the lag; then look-ups alone, each timed. Speeds are per second of the process's CPU, and by wall
 * clock. `--peer` runs Dynamo's RadixTree on the same requests (dynamo-radix-tree.py). Runs from
 * dist; prints JSON.
 */
import { execFileSync } from "node:child_process";
import { KvIndex } from "../../dist/cluster/index/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, printResult } from "../machine.mjs";
import {
  below,
  cpuMs,
  makeSession,
  PROMPT_BLOCKS,
  percentiles,
  round,
  SESSION_BLOCKS,
  scope,
  storeShared,
} from "./index-workload.mjs";

const { values: flags } = readFlags({
  options: {
    blocks: { type: "numbers", default: [1_000_000], min: 1 },
    workers: { type: "numbers", default: [16, 128, 1024], min: 2 },
    operations: { type: "number", default: 4_000_000, min: 1 },
    peer: { type: "boolean", default: false },
    out: { type: "string" },
  },
});

const LOOKUPS = 20_000;
/** Sessions are made in batches, so that making them is outside of the measured time. */
const BATCH = 500;
/** Of one request and of what it stores and removes. */
const OPERATIONS = PROMPT_BLOCKS + 4 * SESSION_BLOCKS;
const LAG_BATCHES = 8;
const LAG_OPERATIONS_PER_MS = 500;

function memoryBytes() {
  // The second frees the buffers of what the first found dead.
  globalThis.gc?.();
  globalThis.gc?.();
  const { arrayBuffers, heapUsed } = process.memoryUsage();
  return arrayBuffers + heapUsed;
}

/** An index, and the sessions that are in it, oldest first. */
class Filled {
  index = new KvIndex({ bytesMax: 4 * 2 ** 30 });
  #live = [];
  #oldest = 0;

  constructor(workers) {
    this.workers = workers;
    storeShared(this.index, workers);
  }

  makeBatch() {
    return Array.from({ length: BATCH }, () => makeSession(this.workers));
  }

  store({ holders, stored }) {
    for (const worker of holders) this.index.apply(worker, [stored]);
  }

  /** Of a session in the index no more than its names is kept. */
  keep(batch) {
    this.#live.push(...batch.map(({ holders, removed }) => ({ holders, removed })));
  }

  turn(session) {
    this.index.find(this.index.blocksOf(scope, session.prompt));
    this.store(session);
    const { holders, removed } = this.#live[this.#oldest++];
    for (const worker of holders) this.index.apply(worker, [removed]);
  }

  get listBytes() {
    return this.#live.length * (SESSION_BLOCKS * 8 + 400);
  }
}

function measure(workers, blocks) {
  const before = memoryBytes();
  const filled = new Filled(workers);
  const { index } = filled;
  let fillMs = 0;
  let stored = 0;
  while (stored < blocks) {
    const batch = filled.makeBatch();
    const from = cpuMs();
    for (const session of batch) filled.store(session);
    fillMs += cpuMs() - from;
    stored += BATCH * 2 * SESSION_BLOCKS;
    filled.keep(batch);
  }
  const { memberships, bytes } = index.stats();
  const processBytes = memoryBytes() - before - filled.listBytes;
  const churn = measureChurn(filled);
  const lagMs = measureLag(filled);
  return {
    workers,
    memberships,
    fillMillionBlocksPerSecond: round(stored / fillMs / 1000),
    ...churn,
    lagMs,
    findUs: measureFinds(filled),
    bytesPerMembership: round(bytes / memberships),
    bytesPerMembershipOfProcess: round(processBytes / memberships),
  };
}

function measureChurn(filled) {
  let cpu = 0;
  let wallMs = 0;
  let operations = 0;
  while (operations < flags.operations) {
    const batch = filled.makeBatch();
    const from = cpuMs();
    const fromMs = performance.now();
    for (const session of batch) filled.turn(session);
    wallMs += performance.now() - fromMs;
    cpu += cpuMs() - from;
    operations += BATCH * OPERATIONS;
    filled.keep(batch);
  }
  return {
    churnMillionOperationsPerSecond: round(operations / cpu / 1000),
    byWallClock: round(operations / wallMs / 1000),
  };
}

/** Requests arrive at equal distances, whether the earlier ones are done or not. */
function measureLag(filled) {
  const lags = [];
  for (let round = 0; round < LAG_BATCHES; round++) {
    const batch = filled.makeBatch();
    const start = performance.now();
    batch.forEach((session, place) => {
      const arrivalMs = start + (place * OPERATIONS) / LAG_OPERATIONS_PER_MS;
      while (performance.now() < arrivalMs);
      filled.turn(session);
      lags.push(performance.now() - arrivalMs);
    });
    filled.keep(batch);
  }
  return percentiles(lags);
}

function measureFinds(filled) {
  const batch = filled.makeBatch();
  for (const session of batch) filled.store(session);
  const prompts = batch.map(({ prompt }) => filled.index.blocksOf(scope, prompt));
  const times = [];
  for (let look = 0; look < LOOKUPS; look++) {
    const prompt = prompts[below(prompts.length)];
    const from = process.hrtime.bigint();
    filled.index.find(prompt);
    times.push(Number(process.hrtime.bigint() - from) / 1000);
  }
  return percentiles(times.slice(LOOKUPS / 10));
}

function runPeer(python, workers, blocks) {
  const numbers = [workers, blocks, flags.operations].map(String);
  const script = new URL("dynamo-radix-tree.py", import.meta.url).pathname;
  const env = { ...process.env, DYN_LOG: "error" };
  return JSON.parse(execFileSync(python, [script, ...numbers], { env, encoding: "utf8" }));
}

const venv = new URL("../../test/peers/dynamo-venv.sh", import.meta.url).pathname;
const python = flags.peer ? execFileSync(venv, { encoding: "utf8" }).trim() : null;
const results = flags.workers.flatMap((workers) =>
  flags.blocks.flatMap((blocks) => [
    measure(workers, blocks),
    ...(python === null ? [] : [runPeer(python, workers, blocks)]),
  ]),
);
printResult({ machine: describeMachine(), results }, flags.out);
