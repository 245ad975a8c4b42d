/**
 * node bench/eviction.mjs [--seed 1] [--requests 20000] [--capacity 2000,5000,10000] [--trace FILE]
 *
 * Hit rates of eviction orders on a mixed workload: shared system prompts, long chats, one-off
 * requests (src/simulator/mixed-workload.ts); with --trace, on a trace too, which has no
 * priorities. Runs the production cache from dist; prints JSON.
 */
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { IntList, systemClock } from "../dist/base/index.js";
import { BlockTable, KvCache } from "../dist/kvcache/index.js";
import { mixedWorkload, readTrace, replayTrace } from "../dist/simulator/index.js";
import { describeMachine } from "./machine.mjs";

const { values: flags } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    requests: { type: "string", default: "20000" },
    capacity: { type: "string", default: "2000,5000,10000" },
    trace: { type: "string" },
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
  return {
    ...plain,
    raisedOnly: rate("priority", onlyRaised),
    priorities: rate("priority"),
    truePriorities: rate("true-priority"),
    worthlessHead: rate("priority", headWorthless),
    worthlessHeadTrue: rate("true-priority", headWorthless),
  };
}

const capacities = flags.capacity.split(",").map((text) => (text === "inf" ? null : Number(text)));
const traceFlag = flags.trace === undefined ? "" : ` --trace ${basename(flags.trace)}`;
const seed = Number(flags.seed);
const requests = Number(flags.requests);
const mixed = mixedWorkload({ seed, requests });
const measureAll = (trace) => ({
  requests: trace.requests.length,
  blockRefs: trace.blockRefs,
  blockHitRates: [...capacities, null].map((capacity) => measure(trace, capacity)),
});
console.log(
  JSON.stringify(
    {
      command: `node bench/eviction.mjs --seed ${seed} --requests ${requests}${traceFlag}`,
      machine: describeMachine(),
      mixed: measureAll(mixed),
      ...(flags.trace === undefined
        ? {}
        : { trace: measureAll(await readTrace(flags.trace, 512)) }),
    },
    null,
    2,
  ),
);
