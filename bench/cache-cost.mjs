/**
 * node bench/cache-cost.mjs [--blocks 1000,10000,100000,1000000] [--policy priority] [--runs 3]
 *
 * What the books of the cache cost, in ns per block, at several sizes: blocks are allocated,
 * released, published, found and held again, evicted for others, and moved to host memory on the
 * way; and how many bytes of books a block has. Each number is the least of several runs, since
 * others' work on the machine only adds. Runs the production cache from dist; prints JSON.
 */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { IntList, systemClock } from "../dist/base/index.js";
import { BlockTable, KvCache } from "../dist/kvcache/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    blocks: { type: "numbers", default: [1000, 10000, 100000, 1000000], min: 1 },
    policy: { type: "string", default: "priority" },
    runs: { type: "number", default: 3, min: 1 },
  },
});
setFlagsFromString("--expose_gc");
/** Buffers of earlier caches must be gone before those of the next one are counted. */
const collectGarbage = runInNewContext("gc");

const BLOCK_TOKENS = 16;
/** A sequence of 1,600 tokens. */
const TABLE_BLOCKS = 100;
/** So few blocks take no time that a clock can tell: small caches are filled again and again. */
const BLOCKS_MIN = 200_000;

/** Tokens of one sequence, which no other begins with. */
function tokensOf(table, salt) {
  const tokens = new Int32Array(TABLE_BLOCKS * BLOCK_TOKENS + 1);
  for (let at = 0; at < tokens.length; at++) {
    tokens[at] = (Math.imul(table * 31 + at + salt, 0x9e3779b1) >>> 8) % 50_000;
  }
  tokens[0] = table + salt * 10_000_000;
  return new IntList(tokens);
}

/** What the parts of a round cost: each is timed on its own, and summed over the rounds. */
class Costs {
  ns = {};
  #blocks = {};

  time(name, blocks, work) {
    const begin = systemClock.nowMs();
    work();
    this.ns[name] = (this.ns[name] ?? 0) + (systemClock.nowMs() - begin) * 1e6;
    this.#blocks[name] = (this.#blocks[name] ?? 0) + blocks;
  }

  perBlock() {
    const names = Object.keys(this.ns);
    return Object.fromEntries(names.map((name) => [name, this.ns[name] / this.#blocks[name]]));
  }
}

/** Fills and empties a cache of so many blocks; with `hostBlocks` what is evicted moves there. */
function round(cache, histories, others, costs, suffix) {
  const blocks = histories.length * TABLE_BLOCKS;
  const tables = histories.map(() => new BlockTable());
  const each = (work) => {
    for (let at = 0; at < tables.length; at++) work(tables[at], histories[at], at);
  };
  if (suffix === "") {
    costs.time("allocate", blocks, () => each((table) => cache.allocate(table, TABLE_BLOCKS)));
    costs.time("release", blocks, () => each((table) => cache.release(table)));
  }
  each((table) => cache.allocate(table, TABLE_BLOCKS));
  const filled = TABLE_BLOCKS * BLOCK_TOKENS;
  const publish = () => each((table, tokens) => cache.publish(table, tokens, filled));
  costs.time(`publish${suffix}`, blocks, publish);
  costs.time(`release to cached${suffix}`, blocks, () => each((table) => cache.release(table)));
  const matches = [];
  const match = () => each((_, tokens, at) => (matches[at] = cache.match("", tokens.view())));
  costs.time(`match${suffix}`, blocks, match);
  const adopt = () => each((table, _, at) => cache.adopt(table, matches[at]));
  costs.time(`adopt${suffix}`, blocks, adopt);
  each((table) => cache.release(table));
  // Everything is cached now; others want all of it.
  const evict = () => each((table) => cache.allocate(table, TABLE_BLOCKS));
  costs.time(suffix === "" ? "evict" : "evict to host memory", blocks, evict);
  cache.takeMoves();
  each((table, _, at) => cache.publish(table, others[at], filled));
  each((table) => cache.release(table));
  if (suffix !== "") {
    each((_, tokens, at) => (matches[at] = cache.match("", tokens.view())));
    costs.time("bring back", blocks, adopt);
    each((table) => cache.release(table));
    cache.takeMoves();
  }
  cache.reset();
}

function measureOnce(blocks) {
  const sequences = Math.floor(blocks / TABLE_BLOCKS);
  const histories = Array.from({ length: sequences }, (_, table) => tokensOf(table, 1));
  const others = Array.from({ length: sequences }, (_, table) => tokensOf(table, 2));
  const costs = new Costs();
  const rounds = Math.max(1, Math.ceil(BLOCKS_MIN / blocks));
  const cache = new KvCache({ blocks, blockTokens: BLOCK_TOKENS, evictionPolicy: flags.policy });
  for (let done = 0; done < rounds; done++) round(cache, histories, others, costs, "");
  const tiered = new KvCache({
    ...{ blocks, hostBlocks: blocks, blockTokens: BLOCK_TOKENS },
    evictionPolicy: flags.policy,
  });
  for (let done = 0; done < rounds; done++) round(tiered, histories, others, costs, ", two levels");
  return costs.perBlock();
}

/** Bytes of typed arrays per block, the tokens of the prefix tree included. */
function bookBytesPerBlock(blocks) {
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const cache = new KvCache({ blocks, blockTokens: BLOCK_TOKENS, evictionPolicy: flags.policy });
  const bytes = process.memoryUsage().arrayBuffers - before;
  return Math.round(bytes / cache.totalBlocks);
}

function measure(blocks) {
  const runs = Array.from({ length: flags.runs }, () => measureOnce(blocks));
  const names = Object.keys(runs[0]);
  const ns = names.map((name) => [name, Math.round(Math.min(...runs.map((run) => run[name])))]);
  return Object.fromEntries(ns);
}

const sizes = flags.blocks;
// First, while nothing else is left to be collected, and once for what loading the modules left.
bookBytesPerBlock(1000);
const bytes = sizes.map(bookBytesPerBlock);
const results = sizes.map((blocks, at) => ({
  ...{ blocks, bookBytesPerBlock: bytes[at], ns: measure(blocks) },
}));
const shape = { blockTokens: BLOCK_TOKENS, tableBlocks: TABLE_BLOCKS, policy: flags.policy };
const command = `node bench/cache-cost.mjs --blocks ${sizes} --runs ${flags.runs}`;
console.log(JSON.stringify({ command, machine: describeMachine(), ...shape, results }, null, 2));
