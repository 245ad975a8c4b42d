/**
 * node bench/reproduction/paged.mjs [--requests 2000] [--seeds 1,2] [--beam-steps 128] [--out FILE]
 *
 * Figures 12 and 14 of the PagedAttention paper (W. Kwon et al. 2023): the most requests a second
 * at which the mean of latency over output length stays below 0.25 s a token, OPT-13B on one A100
 * (15,700 slots), for the engine's own scheduler and cache (`paged`), Orca's reservations (buddy
 * allocator; Max, Pow2, Oracle) and FasterTransformer (batches as a whole, as many as fit at a
 * mix's longest). All have the same steps: 37 ms, 0.25 ms a sequence, 0.17 ms a prompt token. That
 * is what the paper's batch sizes (figure 13) over its tokens a second (figure 12) come to; it
 * prints no step times.
 */
import { fileURLToPath } from "node:url";
import { LLM } from "../../dist/index.js";
import { Draws, drawLengths, LENGTH_MIXES } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { recordBeamChoices } from "../beam-choices.mjs";
import { ScriptedServer } from "../scripted.mjs";
import { ReservingServer, StaticServer } from "./reserving.mjs";
import { keep } from "./runs.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 2000, min: 100 },
    seeds: { type: "string", default: "1,2" },
    "beam-steps": { type: "number", default: 128, min: 8 },
    out: { type: "string", published: "bench/results/reproduction-paged.json" },
  },
});

const POOL_SLOTS = 15_700;
const CONTEXT_TOKENS = 2048;
const BLOCK_TOKENS = 16;
/** vLLM's own default. */
const SEQUENCES_MAX = 256;
/** Of a mix: an hour of requests is too long, and short ones need more of them to fill a server. */
const REQUESTS = { shareGpt: 1, alpaca: 3 };
const STEP = { baseMs: 37, sequenceMs: 0.25, promptTokenMs: 0.17 };
const NORMALIZED_MS_MAX = 250;
const HALVINGS = 9;
/** Requests a second: knees of figure 12, read off. */
const PAPER = {
  shareGpt: { static: 0.3, max: 0.5, pow2: 0.75, oracle: 1.1, paged: 1.9 },
  alpaca: { static: 5, max: 7, pow2: 13, oracle: 20, paged: 28 },
};
/** Throughput of paged over oracle, Alpaca: 1.3 without beams (figure 14's text), 2.3 with six. */
const PAPER_BEAMS = { 1: 1.3, 2: null, 4: null, 6: 2.3 };

const SERVERS = {
  static: (mix) => {
    const { prompt, output } = LENGTH_MIXES[mix];
    const contextTokens = prompt.tokensMax + output.tokensMax;
    return new StaticServer({ poolSlots: POOL_SLOTS, contextTokens });
  },
  max: () => reserving("max"),
  pow2: () => reserving("pow2"),
  oracle: () => reserving("oracle"),
  paged: () =>
    new ScriptedServer({
      blockTokens: BLOCK_TOKENS,
      poolBlocks: Math.floor(POOL_SLOTS / BLOCK_TOKENS),
      ...{ sequencesMax: SEQUENCES_MAX, waitingMax: 1_000_000 },
      contextTokensMax: CONTEXT_TOKENS,
    }),
};

function reserving(reserve) {
  return new ReservingServer({ poolSlots: POOL_SLOTS, contextTokens: CONTEXT_TOKENS, reserve });
}

/** Mean of latency over output length, in ms, of requests that come at random. */
function normalizedMs(server, { lengths, rate, seed, width, choicesOf }) {
  const draws = new Draws(seed, 5);
  const arrivals = [];
  let atMs = 0;
  for (const one of lengths) {
    atMs += draws.gapMs(rate);
    arrivals.push({ ...one, atMs });
  }
  const open = new Map();
  let [nowMs, next, sum] = [0, 0, 0];
  while (next < arrivals.length || server.activeRequests > 0) {
    if (server.activeRequests === 0) nowMs = Math.max(nowMs, arrivals[next].atMs);
    for (; next < arrivals.length && arrivals[next].atMs <= nowMs; next++) {
      open.set(server.add(arrivals[next], width, choicesOf(next)), arrivals[next]);
    }
    server.step({ look: false });
    const { sequences, promptTokens } = server.computed;
    nowMs += STEP.baseMs + STEP.sequenceMs * sequences + STEP.promptTokenMs * promptTokens;
    for (const id of server.takeEnded()) {
      const { atMs: came, outputTokens } = open.get(id);
      sum += (nowMs - came) / outputTokens;
    }
    // A line that only grows: the rest would tell nothing new.
    if (sum / lengths.length > 4 * NORMALIZED_MS_MAX) break;
  }
  return sum / lengths.length;
}

function sustained(name, options) {
  let [low, high] = [0, options.most];
  for (let step = 0; step < HALVINGS; step++) {
    const rate = (low + high) / 2;
    if (normalizedMs(SERVERS[name](options.mix), { ...options, rate }) <= NORMALIZED_MS_MAX)
      low = rate;
    else high = rate;
  }
  return low;
}

/** Mean over seeds, in requests a second. */
function rateOf(name, { mix, width, choices, most }) {
  const seeds = flags.seeds.split(",").map(Number);
  const rates = seeds.map((seed) => {
    const count = flags.requests * REQUESTS[mix];
    const lengths = drawLengths(LENGTH_MIXES[mix], { seed, count });
    const choicesOf = (at) => (choices === null ? null : choices[at % choices.length]);
    return sustained(name, { mix, lengths, seed, width, choicesOf, most });
  });
  return rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
}

async function choicesOf(width) {
  const llm = await LLM.load(`${root}models/pocket`, { engineThread: false });
  const texts = ["The first of the", "Write a short", "In the year of", "How do I"];
  const ids = await Promise.all(texts.map((text) => llm.codec.encode(text)));
  await llm[Symbol.asyncDispose]();
  const prompts = ids.map((promptTokenIds) => ({ promptTokenIds: [...promptTokenIds] }));
  const steps = flags["beam-steps"];
  return recordBeamChoices({ model: `${root}models/pocket`, prompts, width, steps });
}

const rows = [];
for (const [mix, paper] of Object.entries(PAPER)) {
  const most = mix === "shareGpt" ? 4 : 80;
  const own = {};
  for (const name of Object.keys(SERVERS)) {
    own[name] = rateOf(name, { mix, width: 1, choices: null, most });
  }
  for (const [name, rate] of Object.entries(own)) {
    const row = {
      ...{ mix, server: name, beams: 1, perSecond: Number(rate.toFixed(3)) },
      pagedOver: Number((own.paged / rate).toFixed(2)),
      ...{ paperPerSecond: paper[name], paperOver: Number((paper.paged / paper[name]).toFixed(2)) },
    };
    rows.push(row);
    console.log(JSON.stringify(row));
  }
}
for (const width of [2, 4, 6]) {
  const choices = await choicesOf(width);
  const options = { mix: "alpaca", width, most: 80 / width };
  const paged = rateOf("paged", { ...options, choices });
  const oracle = rateOf("oracle", { ...options, choices: null });
  const row = {
    ...{ mix: "alpaca", server: "oracle", beams: width, perSecond: Number(oracle.toFixed(3)) },
    pagedOver: Number((paged / oracle).toFixed(2)),
    ...{ paperPerSecond: null, paperOver: PAPER_BEAMS[width] },
  };
  rows.push(row);
  console.log(JSON.stringify(row));
}
keep({ name: "paged", out: flags.out, step: STEP, rows });
