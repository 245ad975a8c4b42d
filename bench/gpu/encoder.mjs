// node bench/gpu/encoder.mjs [--texts 64] [--tokens 250] [--hidden 384] [--heads 12] [--wide 1536]
//                            [--layers 6] [--formats f32,bf16] [--json FILE]
//
// The ops of an encoder's step on a GPU, MiniLM-L6's shape by default: each op's time, what share
// of a step it is, and the rate that it reaches; then the whole step by the GPU's clock, and by the
// host's. Medians. Needs a GPU and the build (npm run build).
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, median } from "../machine.mjs";
import { openOrGiveUp, requireBuild, writeJson } from "./gpu-bench.mjs";
import { RandomNumbers } from "./pair.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { gpuMs } = await import("../../dist/devices/cuda/ceilings.js");

const { values: flags } = readFlags({
  options: {
    texts: { type: "number", default: 64, min: 1 },
    tokens: { type: "number", default: 250, min: 1 },
    hidden: { type: "number", default: 384, min: 1 },
    heads: { type: "number", default: 12, min: 1 },
    wide: { type: "number", default: 1536, min: 1 },
    layers: { type: "number", default: 6, min: 1 },
    formats: { type: "string", default: "f32,bf16" },
    json: { type: "string" },
  },
});
const { texts, hidden, heads, wide, layers } = flags;
const count = texts * flags.tokens;
const headDim = hidden / heads;
const repetitions = 20;

/** A session and a device on it: the device's own is private, and events need it. */
const { session, device } = await openOrGiveUp(async () => {
  const settings = cudaFromEnvironment();
  const opened = await CudaSession.open({ settings, warn: (message) => console.warn(message) });
  return { session: opened, device: new CudaDevice(opened) };
});

/** Ops of a layer, in their order; operations of each. */
function opsOf(format) {
  const random = new RandomNumbers(1);
  const floats = (...shape) => {
    const tensor = device.allocate("f32", shape);
    device.write(tensor, random.floats(shape.reduce((product, size) => product * size, 1)));
    return tensor;
  };
  const weight = (rows, columns) => {
    const numbers = random.floats(rows * columns, columns ** -0.5);
    const bytes = new Uint8Array(numbers.buffer);
    const source = { name: "random", dtype: "f32", shape: [rows, columns], bytes: () => bytes };
    const packed = device.pack([{ ...source, discard: () => {} }], { format });
    return { weight: packed, bias: floats(rows) };
  };
  const starts = device.allocate("i32", [texts + 1]);
  device.write(
    starts,
    Int32Array.from({ length: texts + 1 }, (_, i) => i * flags.tokens),
  );
  const [x, y] = [floats(count, hidden), floats(count, hidden)];
  const [qkv, inner] = [floats(count, 3 * hidden), floats(count, wide)];
  const input = device.allocateActivation(format, count, hidden);
  const attended = device.allocateActivation(format, count, hidden);
  const activated = device.allocateActivation(format, count, wide);
  const norm = { weight: floats(hidden), bias: floats(hidden), kind: "layer", epsilon: 1e-12 };
  const [q, o] = [weight(3 * hidden, hidden), weight(hidden, hidden)];
  const [up, down] = [weight(wide, hidden), weight(hidden, wide)];
  const product = (outputs, inputs) => 2 * count * outputs * inputs;
  const attention = { heads, headDim, starts, sequences: texts, scale: headDim ** -0.5 };
  const attentionFlops = 4 * count * flags.tokens * hidden;
  const run = (name, flops, enqueue, times = 1) => ({ name, flops, enqueue, times });
  return [
    run("convert", 0, () => device.convert({ count, out: input, x }), 2),
    run("linear qkv", product(3 * hidden, hidden), () => {
      device.linear({ count, out: qkv, x: input, ...q });
    }),
    run("attention", attentionFlops, () => {
      device.encoderAttention({ count, out: attended, qkv, ...attention });
    }),
    run("linear o", product(hidden, hidden), () => {
      device.linear({ count, out: x, x: attended, accumulate: true, ...o });
    }),
    run("norm", 0, () => device.norm({ count, out: y, x, ...norm }), 2),
    run("linear up", product(wide, hidden), () => {
      device.linear({ count, out: inner, x: input, ...up });
    }),
    run("activate", 0, () => {
      device.activate({ count, kind: "gelu", out: activated, x: inner, gated: false });
    }),
    run("linear down", product(hidden, wide), () => {
      device.linear({ count, out: y, x: activated, accumulate: true, ...down });
    }),
  ];
}

const results = [];
for (const format of flags.formats.split(",")) {
  const ops = opsOf(format);
  for (const { enqueue } of ops) enqueue();
  session.stream.synchronize();
  const rows = ops.map(({ name, flops, enqueue, times }) => {
    const all = () => {
      for (let i = 0; i < repetitions; i++) enqueue();
    };
    const us = (gpuMs(session, all, 7) / repetitions) * 1000;
    return { name, us, times, teraflops: flops / us / 1e6 };
  });
  const stepOf = () => {
    for (let layer = 0; layer < layers; layer++) {
      for (const { enqueue, times } of ops) for (let i = 0; i < times; i++) enqueue();
    }
  };
  const stepMs = gpuMs(session, stepOf, 9);
  const hostMs = median(
    Array.from({ length: 9 }, () => {
      session.stream.synchronize();
      const begin = performance.now();
      stepOf();
      return performance.now() - begin;
    }),
  );
  session.stream.synchronize();
  const layerUs = rows.reduce((sum, { us, times }) => sum + us * times, 0);
  results.push({ format, rows, stepMs, hostMs, tokensPerSecond: (count / stepMs) * 1000 });
  console.log(`\n${format}, ${texts} x ${flags.tokens} tokens`);
  const columns = [
    {
      title: "op",
      left: true,
      of: ({ name, times }) => (times === 1 ? name : `${name} x ${times}`),
    },
    { title: "us", of: ({ us }) => us },
    { title: "share", of: ({ us, times }) => `${Math.round((us * times * 100) / layerUs)} %` },
    { title: "TFLOP/s", of: ({ teraflops }) => (teraflops === 0 ? null : teraflops) },
  ];
  console.log(textTable(columns, rows));
  console.log(`step ${stepMs.toFixed(2)} ms, enqueued in ${hostMs.toFixed(2)} ms`);
  console.log(`${Math.round((count / stepMs) * 1000)} tokens/s`);
}
const gpu = gpuText(session.gpu);
console.log(gpu);
if (flags.json) writeJson(flags.json, { machine: describeMachine(), gpu, flags, results });
