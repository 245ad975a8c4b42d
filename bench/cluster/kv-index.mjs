/**
 * node --expose-gc bench/cluster/kv-index.mjs [--blocks 1000000] [--workers 16,128,1024]
 *   [--operations 4000000]
 *
 * The index of a fleet's blocks. Requests of 100 blocks of 16 tokens: a third is one of 8 prompts
 * that the whole fleet shares, the rest is one session's, which two workers have. First the index
 * is filled to `blocks` blocks of workers; then requests look up, store what is new and remove as
 * much, counted as stored + removed + looked-up blocks, on one core and to completion; then
 * look-ups alone, each timed. Runs from dist; prints JSON.
 */
import { KvIndex } from "../../dist/cluster/index/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    blocks: { type: "numbers", default: [1_000_000], min: 1 },
    workers: { type: "numbers", default: [16, 128, 1024], min: 1 },
    operations: { type: "number", default: 4_000_000, min: 1 },
  },
});

const BLOCK_TOKENS = 16;
const PROMPT_BLOCKS = 100;
const SHARED_BLOCKS = 33;
const FAMILIES = 8;
const SESSION_BLOCKS = PROMPT_BLOCKS - SHARED_BLOCKS;
const LOOKUPS = 20_000;
const scope = { model: "m", blockTokens: BLOCK_TOKENS, salt: null, lora: null, group: 0 };

let state = 1;
/** A whole number below `limit`; the same ones in each run. */
function below(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
}

const shared = Array.from({ length: FAMILIES }, (_, family) => ({
  tokens: randomTokens(SHARED_BLOCKS),
  names: namesFrom(0xf0000000 + family * 1000, SHARED_BLOCKS),
}));

function randomTokens(blocks) {
  return Uint32Array.from({ length: blocks * BLOCK_TOKENS }, () => below(128_000));
}

/** Names as engines make them: any 64 bits. */
function namesFrom(first, count) {
  const names = new Uint32Array(count * 2);
  for (let at = 0; at < count; at++) {
    names[2 * at] = Math.imul(first + at, 0x9e3779b1);
    names[2 * at + 1] = Math.imul(first + at, 0x85ebca6b) ^ 0x5bd1e995;
  }
  return names;
}

let sessions = 0;
function makeSession(workers) {
  const number = sessions++;
  const family = below(FAMILIES);
  const own = randomTokens(SESSION_BLOCKS);
  const names = namesFrom(number * SESSION_BLOCKS, SESSION_BLOCKS);
  const prompt = new Uint32Array(PROMPT_BLOCKS * BLOCK_TOKENS);
  prompt.set(shared[family].tokens);
  prompt.set(own, SHARED_BLOCKS * BLOCK_TOKENS);
  const parent = shared[family].names.slice(-2);
  return {
    prompt,
    holders: workers === 1 ? [0] : [below(workers), below(workers)],
    stored: { type: "stored", scope, level: 0, parent, names, tokens: own },
    removed: { type: "removed", level: 0, names },
  };
}

function storeShared(index, workers) {
  for (let worker = 0; worker < workers; worker++) {
    index.join();
    for (const { tokens, names } of shared) {
      index.apply(worker, [{ type: "stored", scope, level: 0, parent: null, names, tokens }]);
    }
  }
}

/** Of this process, so that what else runs on the machine counts less; milliseconds. */
function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function memoryBytes() {
  globalThis.gc?.();
  const { arrayBuffers, heapUsed } = process.memoryUsage();
  return arrayBuffers + heapUsed;
}

function percentile(sorted, part) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

/** Sessions are made in batches, so that making them is outside of the measured time. */
const BATCH = 500;

function measure(workers, blocks) {
  const before = memoryBytes();
  const index = new KvIndex({ bytesMax: 4 * 2 ** 30 });
  storeShared(index, workers);
  let fillMs = 0;
  let filled = 0;
  const live = [];
  const keep = Math.ceil(blocks / (2 * SESSION_BLOCKS));
  while (live.length < keep) {
    const batch = Array.from({ length: BATCH }, () => makeSession(workers));
    const from = cpuMs();
    for (const session of batch) {
      for (const worker of session.holders) index.apply(worker, [session.stored]);
    }
    fillMs += cpuMs() - from;
    filled += BATCH * 2 * SESSION_BLOCKS;
    // Of what fills the index, the names and a sample of prompts are kept.
    for (const { holders, removed } of batch) live.push({ holders, removed });
  }
  const memberships = index.stats().memberships;
  const listBytes = live.length * (SESSION_BLOCKS * 8 + 400);
  const bytes = memoryBytes() - before - listBytes;

  let churnMs = 0;
  let elapsedMs = 0;
  let operations = 0;
  let oldest = 0;
  let recent = [];
  while (operations < flags.operations) {
    recent = Array.from({ length: BATCH }, () => makeSession(workers));
    const fromMs = performance.now();
    const from = cpuMs();
    for (const session of recent) {
      index.find(index.blocksOf(scope, session.prompt));
      for (const worker of session.holders) index.apply(worker, [session.stored]);
      const old = live[oldest++];
      for (const worker of old.holders) index.apply(worker, [old.removed]);
    }
    churnMs += cpuMs() - from;
    elapsedMs += performance.now() - fromMs;
    operations += BATCH * (PROMPT_BLOCKS + 4 * SESSION_BLOCKS);
    live.push(...recent.map(({ holders, removed }) => ({ holders, removed })));
  }

  const prompts = recent.map(({ prompt }) => index.blocksOf(scope, prompt));
  const times = [];
  for (let look = 0; look < LOOKUPS; look++) {
    const prompt = prompts[below(prompts.length)];
    const from = process.hrtime.bigint();
    index.find(prompt);
    times.push(Number(process.hrtime.bigint() - from) / 1000);
  }
  times.splice(0, LOOKUPS / 10);
  times.sort((a, b) => a - b);
  return {
    workers,
    memberships,
    fillMillionBlocksPerSecond: round(filled / fillMs / 1000),
    churnMillionOperationsPerSecond: round(operations / churnMs / 1000),
    ...{ byWallClock: round(operations / elapsedMs / 1000) },
    findUs: { p50: round(percentile(times, 0.5)), p99: round(percentile(times, 0.99)) },
    bytesPerMembership: round(index.stats().bytes / memberships),
    bytesPerMembershipOfProcess: round(bytes / memberships),
  };
}

function round(value) {
  return Math.round(value * 100) / 100;
}

const results = flags.workers.flatMap((workers) =>
  flags.blocks.map((blocks) => measure(workers, blocks)),
);
console.log(JSON.stringify({ machine: describeMachine(), results }, null, 2));
