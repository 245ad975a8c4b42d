/**
 * node bench/cluster/index-shards.mjs [--shards 1,2] [--workers 128] [--operations 4000000]
 *
 * The index over threads, on requests of index-workload.mjs: stored and removed blocks a second to
 * completion, each counted once however many threads read it; and a look-up's way to a shard and
 * back. By wall clock, which says what the machine's cores allow; and by the CPU of the busiest
 * thread, which says what cores of their own would. Runs from dist; prints JSON.
 */
import { setImmediate } from "node:timers/promises";
import { ShardedKvIndex } from "../../dist/cluster/index/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import {
  below,
  makeSession,
  percentiles,
  round,
  SESSION_BLOCKS,
  scope,
  storeShared,
  threadCpuMs,
} from "./index-workload.mjs";

const { values: flags } = readFlags({
  options: {
    shards: { type: "numbers", default: [1, 2], min: 1 },
    workers: { type: "number", default: 128, min: 2 },
    operations: { type: "number", default: 4_000_000, min: 1 },
  },
});

const BATCH = 500;
const KEPT = 10;
const LOOKUPS = 2000;

async function measure(shards) {
  const index = new ShardedKvIndex({ shards, bytesMax: 2 ** 31 });
  storeShared(index, flags.workers);
  await index.stats();
  const batches = [];
  const busy = new Map();
  let wallMs = 0;
  let operations = 0;
  while (operations < flags.operations) {
    const batch = Array.from({ length: BATCH }, () => makeSession(flags.workers));
    const old = batches.length === KEPT ? batches.shift() : [];
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
    wallMs += performance.now() - from;
    for (const [thread, ms] of threadCpuMs()) {
      busy.set(thread, (busy.get(thread) ?? 0) + ms - (before.get(thread) ?? 0));
    }
    operations += (batch.length + old.length) * 2 * SESSION_BLOCKS;
    batches.push(batch);
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
  const busiestMs = Math.max(...busy.values());
  return {
    shards,
    memberships,
    millionBlocksPerSecond: round(operations / wallMs / 1000),
    byBusiestThread: round(operations / busiestMs / 1000),
    findUs: percentiles(times.slice(LOOKUPS / 10)),
    bytesPerMembership: round(bytes / memberships),
  };
}

const results = [];
for (const shards of flags.shards) results.push(await measure(shards));
const [first] = results;
const scaling = results.map(({ shards, millionBlocksPerSecond, byBusiestThread }) => ({
  shards,
  byWallClock: round(millionBlocksPerSecond / first.millionBlocksPerSecond),
  byBusiestThread: round(byBusiestThread / first.byBusiestThread),
}));
console.log(JSON.stringify({ machine: describeMachine(), results, scaling }, null, 2));
