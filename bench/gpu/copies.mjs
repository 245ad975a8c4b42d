// node bench/gpu/copies.mjs [--blocks 256] [--tokens 2048] [--runs 5] [--model FOLDER]
//     [--json FILE]
//
// Blocks that move between device and host while a prompt is computed: the layers of Llama-3.1-8B
// in bf16 over `tokens` tokens, and `blocks` blocks of 16 tokens each way. Medians by events: the
// step alone, the moves alone, and the step enqueued behind the moves, up to the end of both. What
// is hidden is the share of the moves' time that the last does not take on top of the first. Needs
// a GPU and the build (npm run build).
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild, writeJson } from "./gpu-bench.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { blockTokens, KernelBatch, KernelBuffers, KernelWeights } = await import(
  "./kernel-inputs.mjs"
);
const { opsOf } = await import("./kernel-ops.mjs");
const { describeMachine } = await import("../machine.mjs");
const { llamaFolder, readShape } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    blocks: { type: "string", default: "256" },
    tokens: { type: "string", default: "2048" },
    runs: { type: "string", default: "5" },
    model: { type: "string", default: llamaFolder },
    json: { type: "string" },
  },
});
const [moved, tokens, runs] = [flags.blocks, flags.tokens, flags.runs].map(Number);
const shape = readShape(flags.model);

const session = await openOrGiveUp(() =>
  CudaSession.open({ settings: cudaFromEnvironment(), warn: (message) => console.warn(message) }),
);
const device = new CudaDevice(session);
const gpu = { session, device };

/** The step's own blocks come first, then those that leave, then those that arrive. */
const stepBlocks = Math.ceil(tokens / blockTokens) + 1;
const { layers, kvHeads, headDim } = shape;
const blocks = stepBlocks + 2 * moved;
const cache = device.allocateKvPool({
  ...{ format: "bf16", layers, blocks, blockTokens, kvHeads, headDim },
});
fillRandom(session, cache.address, blocks * cache.bytesPerBlock, "bf16");
const host = device.allocateHostBlocks(cache, 2 * moved);

/** Moves are scattered on the device, as those of an old pool are. */
const scattered = (index) => stepBlocks + ((index * 7919) % moved);
const leaving = Int32Array.from({ length: 2 * moved }, (_, i) =>
  i % 2 === 0 ? scattered(i >> 1) : i >> 1,
);
const arriving = Int32Array.from({ length: 2 * moved }, (_, i) =>
  i % 2 === 0 ? moved + (i >> 1) : moved + scattered(i >> 1),
);
const offload = () => device.offloadBlocks(cache, host, leaving);
const onboard = () => device.onboardBlocks(cache, host, arriving);

const weights = new KernelWeights(gpu, shape, tokens);
const buffers = new KernelBuffers(gpu, shape, { tokens, rows: 1 });
const spans = { batch: 1, context: tokens, count: tokens, vocabulary: shape.vocabulary };
const { bytesPerBlock } = cache;
const batch = new KernelBatch(gpu, { blocks: stepBlocks, bytesPerBlock, layers }, spans);
const ops = opsOf({ device, shape, weights, buffers, cache, batch });
const ofLayer = ops.filter(({ part }) => part === "layer");

/** The ops of `opsOf`, but with each layer's own part of the cache. */
function step() {
  const { heads } = shape;
  const [{ positions, slots, batch: sequences }] = batch.sets;
  const of = (layer) => ({ count: tokens, heads, cache, layer, query: buffers.query });
  const own = {
    ropeKvWrite: (layer) => {
      const more = { qkv: buffers.qkv, positions, slots, rope: weights.rope };
      device.ropeKvWrite({ ...of(layer), ...more });
    },
    pagedAttention: (layer) => {
      const more = { out: buffers.attended, scale: 1 / Math.sqrt(headDim), batch: sequences };
      device.pagedAttention({ ...of(layer), ...more });
    },
  };
  for (let layer = 0; layer < layers; layer++) {
    for (const { name, run } of ofLayer) (own[name] ?? run)(layer);
  }
}

/** Median milliseconds of what is enqueued, up to the end of all moves. */
function timed(...parts) {
  const all = () => {
    for (const part of parts) part();
    session.moves.settle();
  };
  return gpuMs(session, all, runs);
}

const alone = timed(step);
const bytes = moved * cache.bytesPerBlock;
const rows = [
  ["offload", bytes, [offload]],
  ["onboard", bytes, [onboard]],
  ["both", 2 * bytes, [offload, onboard]],
].map(([name, moves, parts]) => {
  const [ms, besideMs] = [timed(...parts), timed(...parts, step)];
  return {
    name,
    bytes: moves,
    ms,
    gbs: moves / ms / 1e6,
    besideMs,
    hidden: (alone + ms - besideMs) / ms,
  };
});

console.log(`${gpuText(session.gpu)}; ${tokens} tokens alone ${alone.toFixed(2)} ms`);
const columns = [
  { title: "moves", left: true, of: ({ name }) => name },
  { title: "MB", of: (row) => (row.bytes / 1e6).toFixed(0) },
  { title: "ms", of: ({ ms }) => ms.toFixed(2) },
  { title: "GB/s", of: ({ gbs }) => gbs.toFixed(1) },
  { title: "with the step, ms", of: ({ besideMs }) => besideMs.toFixed(2) },
  { title: "hidden", of: ({ hidden }) => `${(100 * hidden).toFixed(0)} %` },
];
console.log(textTable(columns, rows));
writeJson(flags.json, { machine: describeMachine(), tokens, blocks: moved, stepMs: alone, rows });
device.dispose();
