// node bench/gpu/kernels.mjs [--batch 1,8,64,256] [--prefill 1x8192,16x512] [--long 100000]
//                            [--only linear,norm] [--model FOLDER] [--json FILE]
//
// A table per kernel: every op of a step of Llama-3.1-8B in bf16, at the batches of decoding and of
// prompts. Medians of a CUDA graph of many repetitions that take turns on several layers and
// blocks, timed by events; bytes and operations as kernel-ops.mjs counts them; the share of the
// ceiling that the slower of both allows, measured in this run. Then the sum over a step's layers
// against a graph of the whole step: what is lost between kernels, or won where neighbours overlap.
//
// An op that throws has its message in its row. Needs a GPU and the build (npm run build).
import { readFlags } from "../../tools/flags.mjs";
import { ceilingsText, giveUp, openOrGiveUp, requireBuild, writeJson } from "./gpu-bench.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { gpuMs, measureCeilings } = await import("../../dist/devices/cuda/ceilings.js");
const { KernelBatch, KernelBuffers, KernelWeights, randomCache } = await import(
  "./kernel-inputs.mjs"
);
const { enqueueStep, opsOf } = await import("./kernel-ops.mjs");
const { describeMachine } = await import("../machine.mjs");
const { limitMs, llamaFolder, readShape } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    batch: { type: "string", default: "1,8,64,256" },
    prefill: { type: "string", default: "1x8192,16x512" },
    long: { type: "string", default: "100000" },
    only: { type: "string" },
    model: { type: "string", default: llamaFolder },
    json: { type: "string" },
  },
});
const only = flags.only?.split(",") ?? null;
const decodeContext = 576;
const shortContext = 128;

/** Milliseconds that one graph of repetitions should take, at least and at most. */
const graphMs = { wanted: 3, most: 60 };
const repetitionsMax = 384;
/** Milliseconds that all timed runs of one row may take. */
const rowMs = 250;
/** Beyond so many milliseconds a single run says enough. */
const slowMs = 200;

/** A session and a device on it: the device's own is private, and events and captures need it. */
async function openGpu(settings) {
  const session = await CudaSession.open({ settings, warn: (message) => console.warn(message) });
  return { session, device: new CudaDevice(session) };
}

/** The work to measure, as [sequences, context, tokens of each in the step]. */
function chosenWork() {
  const list = (text) => text.split(",").filter((each) => each !== "" && each !== "0");
  const decode = list(flags.batch).map((batch) => ({
    batch: Number(batch),
    context: decodeContext,
  }));
  const lone = decode.some(({ batch }) => batch === 1);
  const more = lone ? [shortContext, ...list(flags.long).map(Number)] : [];
  const prompts = list(flags.prefill).map((text) => text.split("x").map(Number));
  return [
    ...more.slice(0, 1).map((context) => ({ batch: 1, context, count: 1 })),
    ...decode.map((each) => ({ ...each, count: 1 })),
    ...more.slice(1).map((context) => ({ batch: 1, context, count: 1 })),
    ...prompts.map(([batch, tokens]) => ({ batch, context: tokens, count: tokens })),
  ];
}

const titleOf = ({ batch, context, count }) =>
  count === 1 ? `decode, batch ${batch}, context ${context}` : `prefill, ${batch} x ${count}`;

/** Milliseconds of one of `repetitions` that run in a graph, or without where none can be made. */
function repeatedMs({ session }, enqueue, repetitions, runs) {
  const { stream } = session;
  const all = () => {
    for (let place = 0; place < repetitions; place++) enqueue(place);
  };
  let graph;
  try {
    graph = stream.capture(all);
  } catch (error) {
    stream.synchronize();
    const ms = gpuMs(session, all, runs) / repetitions;
    return { ms, graph: false, note: `no graph: ${error.message}` };
  }
  const runnable = graph.instantiate();
  try {
    runnable.upload(stream);
    return { ms: gpuMs(session, () => runnable.launch(stream), runs) / repetitions, graph: true };
  } finally {
    stream.synchronize();
    for (const each of [runnable, graph]) each.destroy();
  }
}

/** Time of an op, as often as its speed and the number of its places ask for. */
function timeOp(gpu, op, places) {
  const { stream } = gpu.session;
  // Sizes scratch memory and chooses algorithms, which a capture must not.
  for (let place = 0; place < 2; place++) op.run(place);
  stream.synchronize();
  const firstMs = gpuMs(gpu.session, () => op.run(0), 1, 0);
  if (firstMs > slowMs) return { ms: firstMs, graph: false, repetitions: 1, runs: 1 };
  // An emulated GPU has no clock: once is enough there.
  const onceMs = gpuMs(gpu.session, () => op.run(0), 3) || graphMs.most;
  const wanted = Math.max(places, Math.ceil(graphMs.wanted / onceMs));
  const affordable = Math.max(1, Math.floor(graphMs.most / onceMs));
  const repetitions = Math.min(wanted, affordable, repetitionsMax);
  const runs = Math.max(3, Math.min(11, Math.floor(rowMs / (repetitions * onceMs))));
  return { ...repeatedMs(gpu, op.run, repetitions, runs), repetitions, runs };
}

/** What a row says beside its time. */
function judged(op, { ms, ...how }, ceilings) {
  const byBytes = op.bytes / ceilings.copyGBs / 1e6;
  const byFlops = op.flops / ceilings.bf16TFLOPs / 1e9;
  const memory = byBytes >= byFlops;
  return {
    op: op.name,
    us: ms * 1000,
    bytes: op.bytes,
    flops: op.flops,
    bound: memory ? "memory" : "compute",
    rate: memory ? op.bytes / ms / 1e6 : op.flops / ms / 1e9,
    share: limitMs(op, ceilings) / ms,
    ...how,
  };
}

/** One row; a broken context ends everything, since no later call can succeed. */
function measureOp(gpu, op, places, ceilings) {
  try {
    return judged(op, timeOp(gpu, op, places), ceilings);
  } catch (error) {
    if (error?.code === "DEVICE_FAILED") throw error;
    return { op: op.name, error: error.message };
  }
}

/** A whole step in one graph, and what it is beside the sum of its ops. */
function measureStep(gpu, ops, rows, shape) {
  const timesOf = { start: 1, layer: shape.layers, end: 1, apart: 0 };
  const sumMs = ops.reduce(
    (sum, op, at) => sum + (timesOf[op.part] * (rows[at].us ?? 0)) / 1000,
    0,
  );
  try {
    enqueueStep(ops, 2);
    gpu.session.stream.synchronize();
    const stepMs = gpuMsOfStep(gpu, ops, shape.layers, sumMs);
    return { ...stepMs, sumMs, betweenMs: stepMs.ms - sumMs };
  } catch (error) {
    if (error?.code === "DEVICE_FAILED") throw error;
    return { error: error.message, sumMs };
  }
}

function gpuMsOfStep(gpu, ops, layers, sumMs) {
  const step = () => enqueueStep(ops, layers);
  if (sumMs > 5 * slowMs) return { ms: gpuMs(gpu.session, step, 1, 0), note: "run once" };
  return repeatedMs(gpu, step, 1, Math.max(3, Math.min(11, Math.floor(rowMs / sumMs) || 3)));
}

const columns = [
  { title: "op", left: true, of: ({ op }) => op },
  { title: "us", of: ({ us }) => us },
  { title: "MB", of: ({ bytes }) => (bytes === undefined ? null : bytes / 1e6) },
  { title: "GFLOP", of: ({ flops }) => (flops ? flops / 1e9 : null) },
  { title: "bound", left: true, of: ({ bound }) => bound },
  { title: "GB/s or TFLOP/s", of: ({ rate }) => rate },
  {
    title: "share",
    of: ({ share }) => (share === undefined ? null : `${(100 * share).toFixed(1)} %`),
  },
  { title: "in a step, ms", of: ({ stepMs }) => stepMs },
  { title: "", left: true, of: ({ error, note }) => error ?? note ?? "" },
];

/** All rows of one step, and the step. */
function measureWork(gpu, parts, spans, ceilings) {
  const { shape } = parts;
  const tokens = spans.batch * spans.count;
  const buffers = new KernelBuffers(gpu, shape, { tokens, rows: spans.batch });
  const batch = new KernelBatch(gpu, parts.cache, { ...spans, vocabulary: shape.vocabulary });
  const ops = opsOf({ ...parts, device: gpu.device, buffers, batch });
  const wanted = ops.filter(({ name }) => only?.some((part) => name.includes(part)) ?? true);
  const timesOf = { start: 1, layer: shape.layers, end: 1, apart: 0 };
  const rows = wanted.map((op) => {
    const row = measureOp(gpu, op, placesOf(op, batch), ceilings);
    return { ...row, stepMs: row.us === undefined ? null : (timesOf[op.part] * row.us) / 1000 };
  });
  const step = only === null ? measureStep(gpu, ops, rows, shape) : null;
  print(spans, rows, step);
  gpu.session.stream.synchronize();
  for (const each of [buffers, batch]) each.release();
  return { work: titleOf(spans), ...spans, rows, step };
}

/** Places that an op can take turns on before it meets the same bytes again. */
function placesOf({ name }, batch) {
  return name === "pagedAttention" || name === "ropeKvWrite" ? batch.places : 6;
}

function print(spans, rows, step) {
  console.log(`\n${titleOf(spans)}\n${textTable(columns, rows)}`);
  if (step === null) return;
  if (step.error !== undefined) {
    console.log(`a whole step: ${step.error}; the ops' sum is ${step.sumMs.toFixed(3)} ms`);
    return;
  }
  const { ms, sumMs, betweenMs, note = "one graph" } = step;
  const share = (100 * betweenMs) / ms;
  console.log(
    `a whole step ${ms.toFixed(3)} ms (${note}), its ops alone ${sumMs.toFixed(3)} ms: ` +
      `between kernels ${betweenMs.toFixed(3)} ms, ${share.toFixed(1)} %`,
  );
}

/** The measurement, once a GPU and the sizes are there. */
async function main() {
  const shape = readShape(flags.model);
  const settings = cudaFromEnvironment();
  const started = performance.now();
  const gpu = await openOrGiveUp(() => openGpu(settings));
  const { session } = gpu;
  const ceilings = measureCeilings(session, settings);
  const work = chosenWork();
  console.log(`${gpuText(session.gpu)}: ${ceilingsText(ceilings)}`);
  // Then limits are of bytes alone.
  ceilings.bf16TFLOPs ??= Number.POSITIVE_INFINITY;
  const contextMax = Math.max(...work.map(({ context }) => context)) + 1;
  const tokensMax = Math.max(...work.map(({ batch, context }) => batch * (context + 16)));
  const weights = new KernelWeights(gpu, shape, contextMax);
  const cache = randomCache(gpu, shape, tokensMax);
  const tables = work.map((spans) => measureWork(gpu, { shape, weights, cache }, spans, ceilings));
  const seconds = (performance.now() - started) / 1000;
  console.log(`\n${seconds.toFixed(0)} s in all`);
  const machine = { ...describeMachine(), gpu: gpuText(session.gpu) };
  writeJson(flags.json, { machine, shape, ceilings, tables });
  gpu.device.dispose();
}

await main().catch((error) => giveUp(error.stack ?? String(error)));
