// One family of ways for linears.mjs, in a process of its own: a line of JSON per result.
import { parseArgs } from "node:util";
import { openOrGiveUp } from "./gpu-bench.mjs";
import { KernelVariants, tilesVariants } from "./kernel-variants.mjs";

const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/gpu.js");
const { CudaActivation, CudaMatrix, CudaTensor } = await import(
  "../../dist/devices/cuda/handles.js"
);
const { KERNEL_FILES } = await import("../../dist/devices/cuda/kernel-names.js");
const { canTile, hasTiles } = await import("../../dist/devices/cuda/linear-tiles.js");
const { linear } = await import("../../dist/devices/cuda/ops/linear.js");
const { linearActivate } = await import("../../dist/devices/cuda/ops/linear-activate.js");
const { activateTiles, linearTiles } = await import("../../dist/devices/cuda/ops/linear-tiles.js");
const { fillRandom, gpuMs, measureCeilings } = await import("../../dist/devices/cuda/ceilings.js");

const { values: flags } = parseArgs({
  options: {
    family: { type: "string" },
    rows: { type: "string" },
    only: { type: "string" },
    scale: { type: "string" },
    ceilings: { type: "string" },
  },
});
const scale = Number(flags.scale);
const rowCounts = flags.rows.split(",").map(Number);
/** Bytes of the matrices that launches take turns on. */
const turnBytes = Math.ceil((512 << 20) / scale ** 2);
const launchesMin = scale === 1 ? 8 : 1;
const runs = scale === 1 ? 9 : 1;
/** Sizes stay such that every way takes them. */
const multiple = 16;

/** [outputs, columns]; gate/up is `linearActivate`. */
const shapes = {
  qkv: [6144, 4096],
  o: [4096, 4096],
  "gate/up": [28_672, 4096],
  down: [4096, 14_336],
  head: [128_256, 4096],
};

const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings, warn: console.warn }));
const { context, gpu, memory, staging, stream } = session;
/** Ops on this GPU as if it were older, so that they choose the kernels for it. */
const older = { ...context, gpu: { ...gpu, major: 8 }, products: null };
/** The same without kernels that take much shared memory: cuBLASLt's. */
const noKernels = { ...context, gpu: { ...gpu, sharedBytesMax: 0 } };

const say = (result) => console.log(JSON.stringify(result));

function randomRows(Rows, rows, columns) {
  const address = memory.allocate(rows * columns * 2, "random rows");
  fillRandom(session, address, rows * columns * 2);
  return new Rows("bf16", rows, columns, address);
}

/** Operands of one shape: enough matrices to take turns on. */
function operandsOf([outputs, columns]) {
  const rows = Math.max(...rowCounts);
  const count = Math.max(1, Math.ceil(turnBytes / (outputs * columns * 2)));
  return {
    weights: Array.from({ length: count }, () => randomRows(CudaMatrix, outputs, columns)),
    x: randomRows(CudaActivation, rows, columns),
    out: new CudaTensor("f32", [rows, outputs], memory.allocate(rows * outputs * 4, "a product")),
    activated: randomRows(CudaActivation, rows, outputs / 2),
  };
}

/** One launch of an op on the matrix whose turn it is. */
function enqueueOp(on, name, { weights, x, out, activated }, { count, place, accumulates }) {
  const weight = weights[place % weights.length];
  if (name === "gate/up") {
    const how = { kind: "silu", gated: true, scratch: out };
    linearActivate(on, { count, out: activated, x, weight, ...how });
  } else {
    linear(on, { count, out, x, weight, accumulate: accumulates });
  }
}

/** The same in tiles, whatever would be chosen. */
function enqueueTiles(name, { weights, x, out, activated }, { count, place, accumulates }) {
  const weight = weights[place % weights.length];
  const shared = { count, x, weight, bias: null };
  if (name === "gate/up") {
    activateTiles(context, { ...shared, kind: "silu", out: activated });
  } else {
    linearTiles(context, { ...shared, out: out.address, accumulate: accumulates });
  }
}

/** Microseconds of one of `launches` in a graph. */
function microseconds(launch, launches) {
  launch(0); // Sizes of scratch, and ways of cuBLASLt, are settled outside of a capture.
  const graph = stream.capture(() => {
    for (let place = 0; place < launches; place++) launch(place);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), runs);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

/** The family's ways by name: what enqueues one launch. */
function waysOf(name, operands, count) {
  const on = (where) => (how) => enqueueOp(where, name, operands, { count, ...how });
  if (flags.family !== "others") {
    const tiles = (how) => enqueueTiles(name, operands, { count, ...how });
    return hasTiles(context) && canTile(count) ? { [flags.family]: tiles } : {};
  }
  const isFew = count <= 16;
  return {
    ...(context.products === null
      ? {}
      : { cuBLASLt: isFew && name === "gate/up" ? null : on(noKernels) }),
    ...(isFew ? { stream: on(context), few: on(older) } : {}),
  };
}

/** Numbers of a result in f32. */
function resultOf(name, { out, activated }, count) {
  if (name !== "gate/up") {
    const floats = new Float32Array(count * out.columns);
    staging.download(floats, out.address);
    return floats;
  }
  const halves = new Uint16Array(count * activated.columns);
  staging.download(halves, activated.address);
  return new Float32Array(Uint32Array.from(halves, (bits) => bits << 16).buffer);
}

/** ‖out - ref‖ / ‖ref‖ beside cuBLASLt; null where that is missing, or it is this. */
function errorOf(way, launch, name, operands, count) {
  if (context.products === null || way === "cuBLASLt") return null;
  const how = { place: 0, accumulates: false };
  enqueueOp(noKernels, name, operands, { count, ...how });
  const wanted = resultOf(name, operands, count);
  // What is not written must be seen.
  memory.fill(operands.out.address, 4 * count * operands.out.columns, 0xff);
  memory.fill(operands.activated.address, 2 * count * operands.activated.columns, 0xff);
  launch(how);
  const actual = resultOf(name, operands, count);
  let [squares, all] = [0, 0];
  for (let i = 0; i < wanted.length; i++) {
    squares += (actual[i] - wanted[i]) ** 2;
    all += wanted[i] ** 2;
  }
  return Math.sqrt(squares / all);
}

/** Where the GPU cannot be faster. */
function ceilingUs([outputs, columns], count, { copyGBs, bf16TFLOPs }) {
  const product = outputs * columns * 2;
  return Math.max(product / copyGBs / 1e3, (product * count) / bf16TFLOPs / 1e6);
}

function measureShape(name, shape, ceilings) {
  const operands = operandsOf(shape);
  const launches = Math.max(operands.weights.length, launchesMin);
  const accumulates = name === "down" || name === "o";
  for (const rows of rowCounts) {
    for (const [way, launch] of Object.entries(waysOf(name, operands, rows))) {
      if (launch === null) continue;
      const error = errorOf(way, launch, name, operands, rows);
      const us = microseconds((place) => launch({ place, accumulates }), launches);
      const share = ceilingUs(shape, rows, ceilings) / us;
      // NaN is no JSON.
      say({ name, rows, way, us, share, error: Number.isNaN(error) ? 9.9e99 : error });
    }
  }
  const regions = [...operands.weights, operands.x, operands.out, operands.activated];
  for (const { address } of regions) memory.release(address);
}

if (flags.family === "others") console.log(gpuText(gpu));
const ceilings =
  flags.ceilings === undefined ? measureCeilings(session, settings) : JSON.parse(flags.ceilings);
say({ ceilings });
const replacements = tilesVariants[flags.family] ?? [];
if (replacements.length > 0) {
  for (const file of ["linear-tiles", "linear-tiles-activate"]) {
    new KernelVariants(session, settings, { file, names: KERNEL_FILES[file] }).use(replacements);
  }
}
for (const name of flags.only.split(",")) {
  const scaled = (size) => Math.max(multiple, Math.round(size / scale / multiple) * multiple);
  measureShape(name, shapes[name].map(scaled), ceilings);
}
session.dispose();
