/**
 * node bench/kernels/attention.mjs [--threads N] [--isa avx512] [--formats f32,i8] [--seconds 0.3]
 *   [--out FILE]
 *
 * Attention alone: decode of one sequence at several contexts, of 16 at 1k, and prefill of 512
 * tokens, for two model shapes, by KV format (f32, f16, bf16, i8, fp8). All layers in turn, so that
 * the caches are as cold as in a step. GB/s count every cached key and value once, GFLOP/s the
 * causal half. Runs from dist; prints JSON.
 */

import { openDevice } from "../../dist/devices/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, median, printResult } from "../machine.mjs";
import { SHAPES } from "../shapes.mjs";

const BLOCK_TOKENS = 16;
const { values: flags } = readFlags({
  options: {
    threads: { type: "number", min: 1 },
    isa: { type: "string" },
    formats: { type: "string", default: "f32,bf16,i8,fp8" },
    seconds: { type: "number", default: 0.3 },
    out: { type: "string" },
  },
});

const CASES = [
  { name: "decode at 128", sequences: 1, context: 128, rows: 1 },
  { name: "decode at 1k", sequences: 1, context: 1024, rows: 1 },
  { name: "decode at 8k", sequences: 1, context: 8192, rows: 1 },
  { name: "16 decodes at 1k", sequences: 16, context: 1024, rows: 1 },
  { name: "prefill of 512", sequences: 1, context: 512, rows: 512 },
];

function i32(device, values, shape = [values.length]) {
  const tensor = device.allocate("i32", shape);
  device.write(tensor, Int32Array.from(values));
  return tensor;
}

/** Sequences of `context` tokens in consecutive blocks, the last `rows` of each asking. */
function batchOf(device, { sequences, context, rows }) {
  const tableBlocks = Math.ceil(context / BLOCK_TOKENS);
  const upTo = (count, value) => Array.from({ length: count }, (_, i) => value(i));
  return {
    sequences,
    queryStarts: i32(
      device,
      upTo(sequences + 1, (s) => s * rows),
    ),
    contextLengths: i32(
      device,
      upTo(sequences, () => context),
    ),
    blockTables: i32(
      device,
      upTo(sequences * tableBlocks, (i) => i),
      [sequences, tableBlocks],
    ),
    queryLengthMax: rows,
    contextLengthMax: context,
  };
}

/** Milliseconds of one call, over all layers in turn. */
function measure(run, layers) {
  const times = [];
  for (let layer = 0; layer < layers; layer++) run(layer);
  const end = performance.now() + flags.seconds * 1000;
  while (performance.now() < end) {
    const start = performance.now();
    for (let layer = 0; layer < layers; layer++) run(layer);
    times.push((performance.now() - start) / layers);
  }
  return { best: Math.min(...times), median: median(times) };
}

function benchCase(device, shape, given, format) {
  const { heads, kvHeads, headDim, layers } = shape;
  const { sequences, context, rows } = given;
  const blocks = sequences * Math.ceil(context / BLOCK_TOKENS);
  const options = { format, layers, blocks, blockTokens: BLOCK_TOKENS };
  const cache = device.allocateKvPool({ ...options, kvHeads, headDim });
  const count = sequences * rows;
  const query = device.allocate("f32", [count, heads * headDim]);
  const out = device.allocateActivation("bf16", count, heads * headDim);
  const batch = batchOf(device, given);
  fill(device, cache, shape, blocks * BLOCK_TOKENS);

  const run = (layer) =>
    device.pagedAttention({ count, out, query, heads, cache, layer, batch, scale: 0.125 });
  const times = measure(run, layers);
  const bytes = (blocks * cache.bytesPerBlock) / layers;
  const pairs = sequences * (rows * context - (rows * (rows - 1)) / 2);
  const flops = 4 * headDim * heads * pairs;
  device.release(cache);
  const rounded = (value) => Math.round(value * 100) / 100;
  return {
    ms: { best: rounded(times.best), median: rounded(times.median) },
    allLayersMs: rounded(times.median * layers),
    gigabytesPerSecond: rounded(bytes / times.median / 1e6),
    gigaflops: rounded(flops / times.median / 1e6),
  };
}

/** Small numbers in every slot of every layer. */
function fill(device, cache, { heads, kvHeads, headDim, layers }, slots) {
  const width = (heads + 2 * kvHeads) * headDim;
  const count = Math.min(slots, 512);
  const qkv = device.allocate("f32", [count, width]);
  device.write(
    qkv,
    Float32Array.from({ length: count * width }, (_, i) => Math.sin(i)),
  );
  const query = device.allocate("f32", [count, heads * headDim]);
  for (let first = 0; first < slots; first += count) {
    const places = i32(
      device,
      Array.from({ length: count }, (_, i) => first + i),
    );
    const step = { count, qkv, query, heads, cache, positions: places, slots: places };
    for (let layer = 0; layer < layers; layer++) device.ropeKvWrite({ ...step, layer });
    device.release(places);
  }
  device.release(qkv);
  device.release(query);
}

/** One case in all formats, one right after the other, so that they meet the same machine. */
function byFormat(shape, given) {
  const formats = flags.formats.split(",");
  return Object.fromEntries(
    formats.map((format) => [format, benchCase(device, shape, given, format)]),
  );
}

const device = await openDevice({
  kind: "cpu",
  ...(flags.threads === undefined ? {} : { threads: flags.threads }),
  ...(flags.isa === undefined ? {} : { isa: flags.isa }),
});
const results = Object.fromEntries(
  ["smol135", "qwen05"].map((name) => [
    name,
    Object.fromEntries(CASES.map((given) => [given.name, byFormat(SHAPES[name], given)])),
  ]),
);
printResult({ machine: describeMachine(), device: device.description, results }, flags.out);
device.dispose();
