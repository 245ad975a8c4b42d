// node bench/gpu/rows.mjs [--tokens 1,64,256,8192] [--only norm,embed,ropeKvWrite] [--model FOLDER]
//     [--scale 1]
//
// The ops of a step that only move rows, by every way that there is: norm, embed and ropeKvWrite of
// Llama-3.1-8B in bf16, as kernel-ops.mjs runs and counts them. Up to 256 tokens are decodes, more
// are one prompt. Medians of a CUDA graph of many repetitions; GB/s beside a copy's of the same
// run, and the largest difference of a result from that of the way that is built, which must be 0.
// --scale divides tokens and all sizes but a head's, for an emulated GPU: it has no clock, but
// differences are as true there. Needs a GPU and the build; exits 1 on a difference.
//
//   CUDA_HOME=$(node test/devices/cuda/emulator/build.mjs) node bench/gpu/rows.mjs --scale 8
import { readFlags } from "../../tools/flags.mjs";
import { difference, giveUp, openOrGiveUp, requireBuild } from "./gpu-bench.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { copySpeed, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { KernelBatch, KernelBuffers, KernelWeights, randomCache } = await import(
  "./kernel-inputs.mjs"
);
const { opsOf } = await import("./kernel-ops.mjs");
const { KernelVariants } = await import("./kernel-variants.mjs");
const { llamaFolder, readShape } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    tokens: { type: "numbers", default: [1, 64, 256, 8192], min: 1 },
    only: { type: "string", default: "norm,embed,ropeKvWrite" },
    model: { type: "string", default: llamaFolder },
    copy: { type: "number", default: 2 * 2 ** 30 },
    scale: { type: "number", default: 1, min: 1 },
  },
});
const scale = flags.scale;
/** Of tokens as they are asked for. */
const decodesMost = 256;
const decodeContext = 576;
/** Milliseconds of a graph, and repetitions in it: launches must not be what is measured. */
const graphMs = 5;
const repetitionsMax = 200;

/**
 * By op: its file and kernels, the buffer that shows its result, and its ways: text that is
 * replaced, or a GPU that the op takes for another size, and so starts as many more blocks.
 */
const subjects = {
  norm: {
    file: "norm",
    names: ["norm"],
    result: "input",
    ways: {
      "a row per block": { size: 1000 },
      "twice the blocks": { size: 2 },
      "half the blocks": { size: 0.5 },
      "what is added stays in the cache": { text: [["delta.loadOnce(", "delta.load("]] },
      "nothing ahead": {
        text: [
          ["    if (next < p.rows) incoming.load(p, next);\n", ""],
          ["    row = next;", "    row = next;\n    if (row < p.rows) incoming.load(p, row);"],
        ],
      },
    },
  },
  embed: {
    file: "embed",
    names: ["embed"],
    result: "x",
    ways: {
      "4 quads at once": { text: [["kQuads = 2;", "kQuads = 4;"]] },
      "1 quad at once": { text: [["kQuads = 2;", "kQuads = 1;"]] },
      "more blocks at once": { text: [["__launch_bounds__(256)", "__launch_bounds__(256, 6)"]] },
    },
  },
  ropeKvWrite: {
    file: "rope-kv-write-pairs",
    names: ["rope_kv_write_few", "rope_kv_write_many"],
    result: "query",
    ways: {
      "a head per thread": { size: 1000 },
      "heads share a thread": { size: 0.001 },
      "4 blocks at once": {
        text: [
          [
            "__launch_bounds__(kThreads)\n    perigee_rope_kv_write_many",
            "__launch_bounds__(kThreads, 4)\n    perigee_rope_kv_write_many",
          ],
        ],
      },
      "rows leave the cache first": { text: [["__ldcg(reinterpret", "__ldcs(reinterpret"]] },
    },
  },
};

const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings }));
const device = new CudaDevice(session);
const gpu = { session, device };
const usualGpu = session.context.gpu;
let failed = 0;

/** Microseconds of one of many repetitions in a graph. */
function timeOf(run) {
  const { stream } = session;
  for (let place = 0; place < 2; place++) run(place);
  stream.synchronize();
  // An emulated GPU has no clock.
  const onceMs = gpuMs(session, () => run(0), 3) || graphMs;
  const repetitions = Math.max(1, Math.min(repetitionsMax, Math.ceil(graphMs / onceMs)));
  const graph = stream.capture(() => {
    for (let place = 0; place < repetitions; place++) run(place);
  });
  const runnable = graph.instantiate();
  runnable.upload(stream);
  const ms = gpuMs(session, () => runnable.launch(stream), 9);
  stream.synchronize();
  for (const each of [runnable, graph]) each.destroy();
  return (1000 * ms) / repetitions;
}

/** What an op writes where nothing is left of before. */
async function resultOf(op, result) {
  const { address, shape } = result;
  const bytes = result.bytes ?? shape.reduce((product, size) => product * size, 4);
  session.memory.fill(address, bytes, 0xff);
  op.run(0);
  return device.readF32(result);
}

/** All ways of one op on one batch, the one that is built first and once more last. */
async function measure(op, { file, names, result, ways }, buffers, copyGBs) {
  const variants = new KernelVariants(session, settings, { file, names });
  const all = { "as it is": {}, ...ways, "as it is, again": {} };
  const rows = [];
  let wanted = null;
  for (const [way, { text = [], size = 1 }] of Object.entries(all)) {
    variants.use(text);
    const multiprocessors = Math.max(1, Math.floor(usualGpu.multiprocessors * size));
    session.context.gpu = { ...usualGpu, multiprocessors };
    const actual = await resultOf(op, buffers[result]);
    wanted ??= actual;
    const us = timeOf(op.run);
    const error = difference(wanted, actual);
    if (error !== 0) failed++;
    const rate = op.bytes / us / 1e3;
    const share = us > 0 ? `${((100 * rate) / copyGBs).toFixed(1)} %` : "–";
    rows.push({ way, us, rate, share, error });
  }
  variants.use([]);
  session.context.gpu = usualGpu;
  return rows;
}

const columns = [
  { title: "way", left: true, of: ({ way }) => way },
  { title: "us", of: ({ us }) => us },
  { title: "GB/s", of: ({ rate }) => rate },
  { title: "of a copy", of: ({ share }) => share },
  { title: "difference", of: ({ error }) => error },
];

/** What so many tokens are that were asked for: a prompt, or decodes. */
function spansOf(asked) {
  const tokens = Math.ceil(asked / scale);
  if (asked > decodesMost) return { batch: 1, context: tokens, count: tokens };
  return { batch: tokens, context: decodeContext, count: 1 };
}

/** The model's sizes over the scale. A kernel is made for a head's, and there are fewer heads. */
function scaledShape() {
  const shape = readShape(flags.model);
  const divided = ["hidden", "heads", "kvHeads", "feedForward", "vocabulary", "qkvRows"].map(
    (size) => [size, shape[size] / scale],
  );
  const broken = divided.find(([, size]) => !Number.isInteger(size));
  if (broken === undefined) return { ...shape, ...Object.fromEntries(divided) };
  return giveUp(`Cannot use --scale ${flags.scale}: it must divide ${broken[0]}`);
}

async function main() {
  const shape = scaledShape();
  const copyGBs = copySpeed(session, Math.ceil(flags.copy / scale ** 2));
  console.log(`${device.description}: copy ${copyGBs.toFixed(0)} GB/s`);
  const counts = flags.tokens;
  const works = counts.map((tokens) => spansOf(tokens));
  const weights = new KernelWeights(gpu, shape, Math.max(...works.map((work) => work.context)) + 1);
  const slots = Math.max(...works.map(({ batch, context }) => batch * (context + 16)));
  const cache = randomCache(gpu, shape, slots);
  for (const spans of works) {
    const tokens = spans.batch * spans.count;
    const buffers = new KernelBuffers(gpu, shape, { tokens, rows: 1 });
    const batch = new KernelBatch(gpu, cache, { ...spans, vocabulary: shape.vocabulary });
    const ops = opsOf({ device, shape, weights, buffers, cache, batch });
    for (const [name, subject] of Object.entries(subjects)) {
      if (!flags.only.split(",").includes(name)) continue;
      const op = ops.find((each) => each.name === name);
      const rows = await measure(op, subject, buffers, copyGBs);
      console.log(`\n${name}, ${tokens} tokens\n${textTable(columns, rows)}`);
    }
    for (const each of [buffers, batch]) each.release();
  }
}

await main();
device.dispose();
process.exit(failed === 0 ? 0 : 1);
