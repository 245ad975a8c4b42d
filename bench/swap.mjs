/**
 * node bench/swap.mjs [--blocks 1,8,16,32,64,128,256] [--lengths 256,512,1024] [--reps 3]
 *   [--out FILE]
 *
 * What a preempted sequence costs, by swap to host memory or by recompute, over block sizes and
 * lengths (figure 19 of the PagedAttention paper), on models/pocket. Two sequences run until their
 * pool is one block too small: the later one gives way, and comes back when the other has ended.
 * Swap is the time of its copies both ways; recompute is the step that computes it again, less a
 * step of one token. `auto` is what the engine chooses by its own estimates. Prints JSON and writes
 * it.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { createPrompts, withEngine } from "./bare-engine.mjs";
import { describeMachine, median } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    blocks: { type: "numbers", default: [1, 8, 16, 32, 64, 128, 256], min: 1 },
    lengths: { type: "numbers", default: [256, 512, 1024], min: 1 },
    reps: { type: "number", default: 3, min: 1 },
    out: { type: "string", published: `${root}bench/results/swap.json` },
  },
});
const blockSizes = flags.blocks;
const lengths = flags.lengths;
const reps = flags.reps;

const MODEL = `${root}models/pocket`;
/** After the first the pool is short; the others are steps to compare with. */
const OUTPUT_TOKENS = 6;

const rounded = (value, digits = 2) => Number(value.toFixed(digits));

/** A pool that holds two prompts and one block; both are computed in one step. */
function setUp(preemption, { blockTokens, length }) {
  const promptBlocks = length / blockTokens;
  return {
    path: MODEL,
    options: {
      // Found again, a prompt would cost nothing, whatever the mode.
      kvCache: { blockTokens, prefixCaching: false },
      scheduler: { preemption, stepTokensMax: 2 * length, runningSequencesMax: 2 },
    },
    blocks: { pool: 2 * promptBlocks + 1, host: promptBlocks + 1 },
  };
}

/** Preempts `times` sequences: the median cost in ms, and what the engine thought before. */
function preempt(preemption, shape, times) {
  const { length, blockTokens } = shape;
  return withEngine(setUp(preemption, shape), async (engine) => {
    const prompt = createPrompts(engine.info.vocabularySize);
    // A prompt alone in its step tells the engine how fast prompts are.
    for (let warmUp = 0; warmUp < 2; warmUp++) await engine.run([prompt(length)], 2);
    const swapMs = engine.cost.swapMs(length / blockTokens);
    const recomputeMs = engine.cost.recomputeMs(length);
    const costs = [];
    for (let rep = 0; rep < times; rep++) {
      costs.push(await preemptOnce(engine, [prompt(length), prompt(length)]));
    }
    const { preemptions, swapPreemptions } = engine.stats;
    if (preemptions !== times) throw new Error(`${preemptions} preemptions in place of ${times}`);
    const bytes = (engine.info.bytesPerBlock * length) / blockTokens;
    return { ms: median(costs), estimate: { swapMs, recomputeMs }, swapPreemptions, bytes };
  });
}

async function preemptOnce(engine, prompts) {
  const before = copies(engine);
  const { steps } = await engine.run(prompts, OUTPUT_TOKENS);
  const after = copies(engine);
  const swapped = after.blocks > before.blocks;
  const again = steps.slice(1).filter(({ stepTokens }) => stepTokens >= prompts[0].length);
  if (swapped === again.length > 0) throw new Error("It came back both ways, or none");
  const plain = steps.filter(({ stepTokens }) => stepTokens <= 2).map(({ ms }) => ms);
  return swapped ? after.ms - before.ms : again[0].ms - median(plain);
}

function copies({ moves: { offload, onboard } }) {
  return { blocks: offload.blocks + onboard.blocks, ms: offload.ms + onboard.ms };
}

async function measure(shape) {
  const swap = await preempt("swap", shape, reps);
  const recompute = await preempt("recompute", shape, reps);
  const auto = await preempt("auto", shape, 1);
  return {
    ...shape,
    bytes: swap.bytes,
    swapMs: rounded(swap.ms, 3),
    recomputeMs: rounded(recompute.ms),
    recomputeOverSwap: rounded(recompute.ms / swap.ms, 0),
    copyGigabytesPerSecond: rounded((2 * swap.bytes) / swap.ms / 1e6),
    // Copies slower than this would make recompute the better way.
    breakEvenMegabytesPerSecond: rounded((2 * swap.bytes) / recompute.ms / 1e3, 1),
    auto: auto.swapPreemptions > 0 ? "swap" : "recompute",
    autoIsRight: auto.swapPreemptions > 0 === swap.ms < recompute.ms,
    estimatedSwapMs: rounded(auto.estimate.swapMs, 3),
    estimatedRecomputeMs: rounded(auto.estimate.recomputeMs),
  };
}

const rows = [];
for (const length of lengths) {
  for (const blockTokens of blockSizes) rows.push(await measure({ length, blockTokens }));
}
const result = {
  benchmark: "swap",
  command: `node bench/swap.mjs --blocks ${flags.blocks} --lengths ${flags.lengths} --reps ${reps}`,
  machine: describeMachine(),
  model: "models/pocket, bfloat16 weights, keys and values",
  unit: "ms per preempted sequence of `length` tokens: out and in, or computed again",
  rows,
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
