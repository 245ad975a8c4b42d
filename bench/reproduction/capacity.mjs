/**
 * node bench/reproduction/capacity.mjs [--seeds 1,2,3] [--traces synthetic,conversation]
 *   [--out FILE]
 *
 * Figure 9 of Mooncake (FAST'25): the hit rate of one cache by its size, LRU, requests in order
 * (the engine's cache, as `perigee replay` runs it). The paper's numbers are read off the figure,
 * which counts blocks of 256 tokens; these traces have blocks of 512.
 */
import { systemClock } from "../../dist/base/index.js";
import { replayTrace } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { keep } from "./runs.mjs";
import { Traces } from "./traces.mjs";

const M = 1e6;
const TOKENS = [0.1, 1, 2, 3, 4, 5, 8, 10, 50, 100].map((millions) => millions * M);
const PAPER = {
  conversation: [0.073, 0.087, 0.12, 0.165, 0.215, 0.247, 0.3, 0.326, 0.398, 0.401],
  // Printed: the most, and that 3 M tokens have 46 % of it, 50 M nearly all.
  synthetic: TOKENS.map((tokens) => ({ [3 * M]: 0.303, [100 * M]: 0.658 })[tokens] ?? null),
};

const { values: flags } = readFlags({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    traces: { type: "string", default: "synthetic,conversation" },
    trace: { type: "string" },
    out: { type: "string", published: "bench/results/reproduction-capacity.json" },
  },
});
const loads = new Traces(flags.trace);
const rows = [];
for (const name of flags.traces.split(",")) {
  const seeds = name === "synthetic" ? flags.seeds.split(",").map(Number) : [1];
  for (const [place, tokens] of TOKENS.entries()) {
    let hit = 0;
    for (const seed of seeds) {
      const options = { policy: "lru", capacityBlocks: Math.floor(tokens / 512) };
      const trace = await loads.get(name, seed);
      hit += replayTrace(trace, { ...options, clock: systemClock }).tokenHitRate / seeds.length;
    }
    const row = { trace: name, tokens, hit: Number(hit.toFixed(4)), paper: PAPER[name][place] };
    rows.push(row);
    console.log(JSON.stringify(row));
  }
}
keep({ name: "capacity", out: flags.out, rows });
