/**
 * node bench/prefix-tree.mjs [--blocks 1000,10000,100000,1000000] [--tokens 16] [--out FILE]
 *
 * What the prefix tree costs, in ns per block: a walk down one history (chain), one parent with
 * very many children (siblings; with equal heads, each token of a block told apart late, too),
 * and parents with a few children each (bushes). The least of several runs, since others' work on
 * the machine only adds. Runs the production tree from dist; prints JSON.
 */

import { systemClock } from "../dist/base/index.js";
import { blockId, PrefixTree } from "../dist/kvcache/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, printResult } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    blocks: { type: "numbers", default: [1000, 10000, 100000, 1000000], min: 1 },
    tokens: { type: "number", default: 16, min: 1 },
    out: { type: "string" },
  },
});
const RUNS = 4;
const blockTokens = flags.tokens;

/** Small tokens that look random and are the same in each run. */
const tokenAt = (index) => (Math.imul(index + 1, 0x9e3779b1) >>> 8) % 50_000;

/** One list of tokens, and for each block where it hangs: below an earlier one, or at the top. */
const SHAPES = {
  chain: { parentOf: (block) => block - 1, tokenOf: (block, offset) => block * 16 + offset },
  siblings: { parentOf: () => -1, tokenOf: (block, offset) => block * 16 + offset },
  "siblings with equal heads": {
    parentOf: () => -1,
    tokenOf: (block, offset) => (offset < blockTokens - 2 ? offset : block * 2 + offset),
  },
  bushes: {
    parentOf: (block) => Math.floor(block / 8) - 1,
    tokenOf: (block, offset) => block * 16 + offset,
  },
};

/** ns per call of `work(index)`, the indices 0 up to `count` or, from behind, down to 0. */
function cost(count, work, fromBehind = false) {
  const begin = systemClock.nowMs();
  for (let index = 0; index < count; index++) work(fromBehind ? count - 1 - index : index);
  return Math.round(((systemClock.nowMs() - begin) * 1e6) / count);
}

/** The costs of one shape with so many blocks, each the least of `RUNS`. */
function measure(blocks, shape) {
  const runs = Array.from({ length: RUNS }, () => measureOnce(blocks, shape));
  const costs = Object.keys(runs[0]).map((name) => [name, Math.min(...runs.map((of) => of[name]))]);
  return Object.fromEntries(costs);
}

function measureOnce(blocks, { parentOf, tokenOf }) {
  const tokens = new Int32Array(blocks * blockTokens);
  for (let block = 0; block < blocks; block++) {
    for (let offset = 0; offset < blockTokens; offset++) {
      tokens[block * blockTokens + offset] = tokenAt(tokenOf(block, offset));
    }
  }
  // As with tokens that end otherwise than any stored block does.
  const strangers = tokens.map((token, at) => (at % blockTokens === blockTokens - 1 ? -1 : token));
  const tree = new PrefixTree(blocks, blockTokens);
  const nodes = new Array(blocks).fill(null);
  const place = (block, source) => ({
    scope: "",
    parent: nodes[parentOf(block)] ?? null,
    tokens: source,
    start: block * blockTokens,
  });
  // Neighbours in memory are found one after the other in a chain only.
  const shuffled = (index) => (parentOf(1) === 0 ? index : Math.imul(index, 7919) >>> 0) % blocks;
  const insert = cost(blocks, (block) => {
    nodes[block] = tree.insert(place(block, tokens), blockId(block));
  });
  const find = cost(blocks, (index) => tree.find(place(shuffled(index), tokens)));
  const miss = cost(blocks, (index) => tree.find(place(shuffled(index), strangers)));
  const findPartial = cost(blocks, (index) => tree.findPartial(place(shuffled(index), strangers)));
  const remove = cost(blocks, (block) => tree.remove(blockId(block)), true);
  return { insert, find, miss, findPartial, remove };
}

const results = [];
for (const blocks of flags.blocks) {
  for (const [shape, how] of Object.entries(SHAPES)) {
    results.push({ blocks, shape, ns: measure(blocks, how) });
  }
}
printResult({ machine: describeMachine(), blockTokens, results }, flags.out);
