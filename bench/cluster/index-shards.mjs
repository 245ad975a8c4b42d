/**
 * node --expose-gc bench/cluster/index-shards.mjs [--shards 1,2] [--workers 128]
 *   [--operations 4000000] [--rounds 3] [--out FILE]
 *
 * The index over threads, on requests of index-workload.mjs: stored and removed blocks a second to
 * completion, each counted once however many threads read it; and a look-up's way to a shard and
 * back. What all workers share is spread evenly over the shards: a fleet whose busiest shard has a
 * larger part gains less.
 *
 * `millionBlocksPerSecond` is by wall clock; where other work has the cores, the CPU of each thread
 * says more: `cpuNsPerBlock` of the thread that reads, of each shard, and of the engine's own
 * threads (its collector). `byBusiestThread` is what enough cores would give, `byTwoCores` what two
 * would, as the work of all threads is no less than that of two cores. Medians of rounds, which
 * take turns. Runs from dist; prints JSON.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { BlockNamer } from "../../dist/cluster/index/block-namer.js";
import { ShardedKvIndex } from "../../dist/cluster/index/index.js";
import { shardOf } from "../../dist/cluster/index/shard-messages.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, printResult, threadCpuMs } from "../machine.mjs";
import {
  below,
  makeSession,
  percentiles,
  round,
  SESSION_BLOCKS,
  scope,
  sharedTokens,
  storeShared,
} from "./index-workload.mjs";

const { values: flags } = readFlags({
  options: {
    shards: { type: "numbers", default: [1, 2], min: 1 },
    workers: { type: "number", default: 128, min: 2 },
    operations: { type: "number", default: 4_000_000, min: 1 },
    rounds: { type: "number", default: 3, min: 1 },
    out: { type: "string" },
  },
});

const BATCH = 500;
const KEPT = 10;
/** Batches before those that count: code is compiled, as many blocks go as come. */
const WARM_UP = 20;
const LOOKUPS = 2000;

/** One that gives no shard more of the shared prompts than an even part. */
function evenNamer(shards) {
  for (let secret = 0; ; secret++) {
    const namer = new BlockNamer([secret, 1, 2, 3]);
    const counts = new Array(shards).fill(0);
    for (const tokens of sharedTokens) {
      counts[shardOf(namer.blocksOf(scope, tokens).keys[0], shards)]++;
    }
    if (Math.max(...counts) <= Math.ceil(sharedTokens.length / shards)) return namer;
  }
}

async function measure(shards) {
  const index = new ShardedKvIndex({ shards, bytesMax: 2 ** 31, namer: evenNamer(shards) });
  storeShared(index, flags.workers);
  await index.stats();
  const batches = [];
  const busy = new Map();
  let wallMs = 0;
  let operations = 0;
  for (let turn = 0; operations < flags.operations; turn++) {
    const batch = Array.from({ length: BATCH }, () => makeSession(flags.workers));
    const old = batches.length === KEPT ? batches.shift() : [];
    // What making the sessions left is not the index's.
    globalThis.gc?.();
    await setTimeout(20);
    const before = threadCpuMs();
    const from = performance.now();
    for (const { holders, stored } of batch) {
      for (const worker of holders) index.apply(worker, [stored]);
    }
    for (const { holders, removed } of old) {
      for (const worker of holders) index.apply(worker, [removed]);
    }
    // Answered when all before it is taken over.
    await index.stats();
    batches.push(batch);
    if (turn < WARM_UP) continue;
    wallMs += performance.now() - from;
    for (const [thread, ms] of threadCpuMs()) {
      busy.set(thread, (busy.get(thread) ?? 0) + ms - (before.get(thread) ?? 0));
    }
    operations += (batch.length + old.length) * 2 * SESSION_BLOCKS;
  }
  const prompts = (batches.at(-1) ?? []).map(({ prompt }) => index.blocksOf(scope, prompt));
  const times = [];
  for (let look = 0; look < LOOKUPS; look++) {
    await setImmediate();
    const from = performance.now();
    await index.find(prompts[below(prompts.length)]);
    times.push((performance.now() - from) * 1000);
  }
  const { memberships, bytes } = await index.stats();
  await index.close();
  const reading = busy.get(String(process.pid)) ?? 0;
  const others = [...busy.values()].sort((a, b) => b - a);
  others.splice(others.indexOf(reading), 1);
  const ofShards = others.splice(0, shards);
  const busiestMs = Math.max(reading, ...ofShards);
  const allMs = [...busy.values()].reduce((sum, ms) => sum + ms, 0);
  const perBlock = (ms) => Math.round((ms * 1e6) / operations);
  return {
    shards,
    memberships,
    millionBlocksPerSecond: round(operations / wallMs / 1000),
    byBusiestThread: round(operations / busiestMs / 1000),
    byTwoCores: round(operations / Math.max(busiestMs, allMs / 2) / 1000),
    cpuNsPerBlock: {
      reading: perBlock(reading),
      shards: ofShards.map(perBlock),
      others: perBlock(others.reduce((sum, ms) => sum + ms, 0)),
    },
    findUs: percentiles(times.slice(LOOKUPS / 10)),
    bytesPerMembership: round(bytes / memberships),
  };
}

const results = [];
for (let turn = 0; turn < flags.rounds; turn++) {
  for (const shards of flags.shards) results.push(await measure(shards));
}
const median = (shards, field) => {
  const own = results.filter((result) => result.shards === shards).map((result) => result[field]);
  return own.sort((a, b) => a - b)[own.length >> 1];
};
const [first] = flags.shards;
const scaling = flags.shards.map((shards) => {
  const row = { shards };
  for (const field of ["millionBlocksPerSecond", "byBusiestThread", "byTwoCores"]) {
    const times = round(median(shards, field) / median(first, field));
    row[field] = { median: median(shards, field), times };
  }
  return row;
});
printResult({ machine: describeMachine(), results, scaling }, flags.out);
