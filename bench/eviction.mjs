/**
 * node bench/eviction.mjs [--seed 1] [--requests 20000] [--capacity 2000,5000,10000] [--trace FILE]
 *   [--out FILE]
 *
 * Hit rates of eviction orders on a mixed workload: shared system prompts, long chats, one-off
 * requests (src/simulator/mixed-workload.ts); with --trace, on a trace too, which has no
 * priorities. Then with host memory behind the device, where what people say goes through their
 * own words (`KvCacheRetentionConfig`'s). Runs the production cache from dist; prints JSON and
 * writes it.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { IntList, systemClock } from "../dist/base/index.js";
import { BlockTable, checkedRetention, KvCache, promptRetention } from "../dist/kvcache/index.js";
import { mixedWorkload, readTrace, replayTrace } from "../dist/simulator/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    seed: { type: "number", default: 1 },
    requests: { type: "number", default: 20000, min: 1 },
    capacity: { type: "string", default: "2000,5000,10000" },
    trace: { type: "string" },
    out: { type: "string", published: `${root}bench/results/eviction.json` },
  },
});

const rounded = (value) => Math.round(value * 10_000) / 10_000;

/** The trace with other priorities: `change` gets a request's and returns them. */
const withPriorities = (trace, change) => ({
  ...trace,
  requests: trace.requests.map((request) => ({
    ...request,
    priorities: change(request.priorities),
  })),
});

/** A head that is worth less than what continues it: a mistake that people make. */
const headWorthless = (priorities) =>
  priorities[0] === 100 ? priorities.map((own, at) => (at < 4 ? 0 : own)) : priorities;

const onlyRaised = (priorities) => priorities.map((own) => Math.max(own, 35));

/**
 * LRU without any bias: blocks are given back head first, and a prefix may be forgotten before
 * what continues it. true-priority without priorities, on tables turned round, is that.
 */
function headFirstHitRate(trace, capacityBlocks) {
  const cache = new KvCache({
    blocks: capacityBlocks,
    blockTokens: 1,
    evictionPolicy: "true-priority",
  });
  let hits = 0;
  for (const { ids } of trace.requests) {
    const tokens = new IntList([...ids, -1]);
    const table = new BlockTable();
    const match = cache.match("", tokens.view());
    hits += match.blocks.length;
    cache.adopt(table, match);
    cache.allocate(table, ids.length - match.blocks.length);
    cache.publish(table, tokens, ids.length);
    table.ids.view().reverse();
    cache.release(table);
  }
  return hits / trace.blockRefs;
}

/** What a request says of its prompt, as a client would write it: a range per run of blocks. */
function retentionOf({ priorities }) {
  const ranges = [];
  priorities?.forEach((priority, at) => {
    const last = ranges.at(-1);
    if (last?.priority === priority) last.end = at + 1;
    else ranges.push({ start: at, end: at + 1, priority, durationMs: null });
  });
  return checkedRetention({ ranges, decodePriority: 35, decodeDurationMs: null });
}

/**
 * Requests one after the other through a cache with host memory. Hit rates by the level in which
 * the leading run of blocks was found, and blocks that went between the levels.
 */
function replayLevels(trace, { deviceBlocks, hostBlocks, policy, retains }) {
  const cache = new KvCache({
    blocks: deviceBlocks,
    hostBlocks,
    blockTokens: 1,
    evictionPolicy: policy,
  });
  const hits = [0, 0];
  for (const request of trace.requests) {
    const { ids } = request;
    const tokens = new IntList([...ids, -1]);
    const table = new BlockTable();
    const match = cache.match("", tokens.view());
    for (const block of match.blocks) hits[cache.levelOf(block)]++;
    cache.adopt(table, match);
    cache.allocate(table, ids.length - match.blocks.length);
    cache.publish(table, tokens, ids.length);
    if (retains) {
      // A block has one token here, so ranges of tokens are ranges of blocks.
      promptRetention(retentionOf(request), ids.length, 1).forEach((retention, index) => {
        cache.setRetention(table, index, retention);
      });
    }
    cache.release(table);
    cache.takeMoves();
  }
  const [device, host] = cache.stats().levels;
  return {
    hitRate: rounded((hits[0] + hits[1]) / trace.blockRefs),
    ofItHost: rounded(hits[1] / trace.blockRefs),
    offloadedPerBlock: rounded(device.offloaded / trace.blockRefs),
    onboardedPerBlock: rounded((host?.onboarded ?? 0) / trace.blockRefs),
  };
}

/** Host memory of as many blocks as the device, and four times as many; 0 to compare with. */
const HOST_FACTORS = [0, 1, 4];

function measureLevels(trace, deviceBlocks) {
  return HOST_FACTORS.map((factor) => {
    const levels = { deviceBlocks, hostBlocks: factor * deviceBlocks };
    return {
      ...levels,
      lru: replayLevels(trace, { ...levels, policy: "lru", retains: false }),
      priorities: replayLevels(trace, { ...levels, policy: "priority", retains: true }),
    };
  });
}

/** Block hit rates of all orders at one capacity; null: no bound. */
function measure(trace, capacityBlocks) {
  const rate = (policy, change) => {
    const load = change === undefined ? trace : withPriorities(trace, change);
    return rounded(replayTrace(load, { policy, capacityBlocks, clock: systemClock }).blockHitRate);
  };
  const none = () => null;
  const plain = {
    capacityBlocks,
    lruHeadFirst: rounded(headFirstHitRate(trace, capacityBlocks ?? trace.blockRefs)),
    lru: rate("lru"),
    leafFirst: rate("priority", none),
    lfu: rate("lfu"),
    lengthAware: rate("length-aware"),
  };
  if (trace.requests.every(({ priorities }) => priorities === null)) return plain;
  const priorities = rate("priority");
  return {
    ...plain,
    raisedOnly: rate("priority", onlyRaised),
    priorities,
    prioritiesOverLru: rounded(priorities / plain.lru - 1),
    truePriorities: rate("true-priority"),
    worthlessHead: rate("priority", headWorthless),
    worthlessHeadTrue: rate("true-priority", headWorthless),
  };
}

const capacities = flags.capacity.split(",").map((text) => (text === "inf" ? null : Number(text)));
const traceFlag = flags.trace === undefined ? "" : ` --trace ${basename(flags.trace)}`;
const seed = flags.seed;
const requests = flags.requests;
const mixed = mixedWorkload({ seed, requests });
const measureAll = (trace) => ({
  requests: trace.requests.length,
  blockRefs: trace.blockRefs,
  blockHitRates: [...capacities, null].map((capacity) => measure(trace, capacity)),
});
const result = {
  command: `node bench/eviction.mjs --seed ${seed} --requests ${requests}${traceFlag}`,
  machine: describeMachine(),
  mixed: measureAll(mixed),
  mixedWithHost: capacities
    .filter((blocks) => blocks !== null)
    .flatMap((blocks) => measureLevels(mixed, blocks)),
  ...(flags.trace === undefined ? {} : { trace: measureAll(await readTrace(flags.trace, 512)) }),
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
