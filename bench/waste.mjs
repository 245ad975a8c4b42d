/**
 * node bench/waste.mjs [--requests 4000] [--seed 1] [--out FILE]
 *
 * What becomes of the memory for keys and values under load, as figures 2 and 13 of the
 * PagedAttention paper have it: slots with a token, slots kept for tokens to come, slots that will
 * never be used, slots that nobody can use; and how many requests run. The pool is that of the
 * paper's OPT-13B (table 1), requests always wait. `paged` is the engine's scheduler and cache;
 * the others reserve contiguous room when a request starts. Prints JSON and writes it.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { drawLengths, LENGTH_MIXES } from "../dist/simulator/index.js";
import { readFlags } from "../tools/flags.mjs";
import { BuddyAllocator } from "./buddy.mjs";
import { describeMachine } from "./machine.mjs";
import { ScriptedServer } from "./scripted.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 4000, min: 1 },
    seed: { type: "number", default: 1 },
    out: { type: "string", published: `${root}bench/results/waste.json` },
  },
});
const requests = flags.requests;
const seed = flags.seed;

const POOL_SLOTS = 15_700;
const CONTEXT_TOKENS = 2048;
const BLOCK_SIZES = [8, 16, 32, 64, 128];
/** More than fit the pool: what bounds the batch is memory. */
const SEQUENCES_MAX = 512;
/** Steps between two looks at the memory. */
const LOOK_STEPS = 8;

/** Percent of the pool. Figure 2's load is ShareGPT's, at the engines' limits. */
const PAPER = {
  max: { token: 20.4, reserved: 13.3, internal: 57.3, external: 8.9 },
  pow2: { token: 26.8, reserved: 17.9, internal: 13.6, external: 41.6 },
  oracle: { token: 38.2, reserved: 25.2, internal: 0, external: 36.6 },
  paged: { token: 96.3 },
};
/** Figure 13: requests that run at 2 (ShareGPT) and 30 (Alpaca) requests a second. */
const PAPER_RUNNING = {
  shareGpt: { max: 7, pow2: 9.81, oracle: 13.62, paged: 30.42 },
  alpaca: { max: 7, pow2: 43.24, oracle: 72.75, paged: 132.44 },
};

/** Slots that a request reserves: by what is known of it when it starts. */
const RESERVES = {
  max: () => CONTEXT_TOKENS,
  // A guess that is right up to a power of two.
  pow2: ({ promptTokens, outputTokens }) =>
    Math.min(CONTEXT_TOKENS, promptTokens + 2 ** Math.ceil(Math.log2(outputTokens))),
  oracle: ({ promptTokens, outputTokens }) => promptTokens + outputTokens,
};

const percent = (share) => Math.round(share * 1000) / 10;

/** Sums over steps, without the first ones: while the pool fills for the first time. */
class Means {
  #sums = {};
  #steps = 0;

  add(values) {
    this.#steps++;
    for (const [name, value] of Object.entries(values)) {
      this.#sums[name] = (this.#sums[name] ?? 0) + value;
    }
  }

  of(name) {
    return this.#sums[name] / this.#steps;
  }
}

/** The prompt takes one step, every token one more; the last one needs no slot. */
function measureReserve(name, lengths) {
  const allocator = new BuddyAllocator(POOL_SLOTS, CONTEXT_TOKENS);
  const waiting = [...lengths];
  let running = [];
  const means = new Means();
  while (waiting.length > 0) {
    for (;;) {
      const [next] = waiting;
      const reserve = next === undefined ? 0 : RESERVES[name](next);
      const chunk = next === undefined ? null : allocator.allocate(reserve);
      if (chunk === null) break;
      running.push({ chunk, reserve, used: next.promptTokens - 1, ...waiting.shift() });
    }
    for (const request of running) request.used++;
    if (waiting.length < lengths.length / 2) means.add(splitOf(running));
    const [ended, others] = [[], []];
    for (const request of running) (isDone(request) ? ended : others).push(request);
    for (const { chunk } of ended) allocator.release(chunk);
    running = others;
  }
  return row(name, means);
}

const isDone = ({ used, promptTokens, outputTokens }) => used >= promptTokens + outputTokens - 1;

/** The reserve beyond the true length is internal; what powers of two add to it, external. */
function splitOf(running) {
  const split = { token: 0, reserved: 0, internal: 0, external: 0, running: running.length };
  let chunks = 0;
  for (const { used, reserve, chunk, promptTokens, outputTokens } of running) {
    const truly = promptTokens + outputTokens;
    split.token += used;
    split.reserved += truly - used;
    split.internal += reserve - truly;
    split.external += chunk.size - reserve;
    chunks += chunk.size;
  }
  split.external += POOL_SLOTS - chunks;
  return split;
}

/** The engine's own books. Whoever runs out of blocks is preempted and computed again. */
function measurePaged(lengths, blockTokens) {
  const server = new ScriptedServer({
    blockTokens,
    poolBlocks: Math.floor(POOL_SLOTS / blockTokens),
    sequencesMax: SEQUENCES_MAX,
    contextTokensMax: CONTEXT_TOKENS,
  });
  const means = new Means();
  let next = 0;
  for (let step = 0; next < lengths.length; step++) {
    while (server.activeRequests < SEQUENCES_MAX && next < lengths.length) {
      server.add(lengths[next++], 1);
    }
    const isSteady = next * 2 >= lengths.length;
    const memory = server.step({ look: isSteady && step % LOOK_STEPS === 0 });
    if (memory === null) continue;
    const { heldBlocks, filledSlots, running } = memory;
    const held = heldBlocks * blockTokens;
    means.add({ token: filledSlots, internal: held - filledSlots, held, running });
  }
  const { preemptions } = server;
  return {
    name: "paged",
    blockTokens,
    ofHeldPercent: percent(means.of("token") / means.of("held")),
    ofPoolPercent: {
      token: percent(means.of("token") / POOL_SLOTS),
      unfilled: percent(means.of("internal") / POOL_SLOTS),
      free: percent(1 - means.of("held") / POOL_SLOTS),
    },
    running: Math.round(means.of("running") * 100) / 100,
    preemptionsPerRequest: Math.round((preemptions / lengths.length) * 1000) / 1000,
  };
}

function row(name, means) {
  const share = (part) => percent(means.of(part) / POOL_SLOTS);
  return {
    name,
    ofPoolPercent: {
      token: share("token"),
      reserved: share("reserved"),
      internal: share("internal"),
      external: share("external"),
    },
    running: Math.round(means.of("running") * 100) / 100,
  };
}

function measureMix(mixName) {
  const lengths = drawLengths(LENGTH_MIXES[mixName], { seed, count: requests });
  const reserves = Object.keys(RESERVES).map((name) => measureReserve(name, lengths));
  const paged = BLOCK_SIZES.map((blockTokens) => measurePaged(lengths, blockTokens));
  const at16 = paged.find(({ blockTokens }) => blockTokens === 16);
  return {
    mix: mixName,
    lengths: LENGTH_MIXES[mixName],
    rows: [...reserves, ...paged],
    batchOverReserve: Object.fromEntries(
      reserves.map(({ name, running }) => [
        name,
        {
          ours: Math.round((at16.running / running) * 100) / 100,
          paper:
            Math.round((PAPER_RUNNING[mixName].paged / PAPER_RUNNING[mixName][name]) * 100) / 100,
        },
      ]),
    ),
  };
}

const result = {
  benchmark: "waste",
  command: `node bench/waste.mjs --requests ${requests} --seed ${seed}`,
  machine: describeMachine(),
  poolSlots: POOL_SLOTS,
  paper: { ofPoolPercent: PAPER, running: PAPER_RUNNING },
  mixes: ["shareGpt", "alpaca"].map(measureMix),
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
