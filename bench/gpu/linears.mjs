// node bench/gpu/linears.mjs [--rows 1,8,16,32,48,64] [--only down,head] [--scale 1]
//
// The linears of Llama-3.1-8B in bf16 for few rows, by every way that there is: the kernel that
// streams weights (native/cuda/linear-stream.cu), the older one (linear-few.cu), and cuBLASLt with
// its way chosen by timing. Microseconds and the share of the copy bandwidth that was measured in
// this run; medians of a graph of launches that take turns on matrices of 512 MiB together, more
// than the second cache holds. Says from how many rows on cuBLASLt is faster: STREAM_ROWS_MAX of
// src/devices/cuda/ops/linear-stream.ts. --scale divides all sizes, for an emulated GPU.
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { CudaActivation, CudaMatrix, CudaTensor } = await import(
  "../../dist/devices/cuda/memory/handles.js"
);
const { linear } = await import("../../dist/devices/cuda/ops/linear.js");
const { linearActivate } = await import("../../dist/devices/cuda/ops/linear-activate.js");
const { copySpeed, fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");

const { values: flags } = readFlags({
  options: {
    rows: { type: "numbers", default: [1, 2, 4, 8, 12, 16, 24, 32, 48, 64], min: 1 },
    only: { type: "string" },
    scale: { type: "number", default: 1, min: 1 },
  },
});
const scale = flags.scale;
const rowCounts = flags.rows;
/** Bytes of the matrices that launches take turns on. */
const turnBytes = Math.ceil((512 << 20) / scale ** 2);

/** [outputs, columns]; gate/up is `linearActivate`. */
const shapes = {
  qkv: [6144, 4096],
  o: [4096, 4096],
  "gate/up": [28_672, 4096],
  down: [4096, 14_336],
  head: [128_256, 4096],
};

const session = await openOrGiveUp(() =>
  CudaSession.open({ settings: cudaFromEnvironment(), warn: console.warn }),
);
const { context, gpu, memory, stream } = session;
/** Ops on this GPU as if it were older, so that they choose the kernels for it. */
const older = { ...context, gpu: { ...gpu, major: 8 }, products: null };
/** The same without kernels for few rows. */
const noKernels = { ...context, gpu: { ...gpu, sharedBytesMax: 0 } };

function randomRows(Rows, rows, columns) {
  const address = memory.allocate(rows * columns * 2, "random rows");
  fillRandom(session, address, rows * columns * 2);
  return new Rows("bf16", rows, columns, address);
}

/** Operands of one shape: enough matrices to take turns on. */
function operandsOf([outputs, columns]) {
  const rows = Math.max(...rowCounts);
  const count = Math.max(1, Math.ceil(turnBytes / (outputs * columns * 2)));
  const plain = memory.allocate(rows * outputs * 4, "a product");
  return {
    weights: Array.from({ length: count }, () => randomRows(CudaMatrix, outputs, columns)),
    x: randomRows(CudaActivation, rows, columns),
    out: new CudaTensor("f32", [rows, outputs], plain),
    activated: randomRows(CudaActivation, rows, outputs / 2),
  };
}

/** One launch on the matrix whose turn it is. */
function enqueue(on, name, operands, { count, place }) {
  const { weights, x, out, activated } = operands;
  const weight = weights[place % weights.length];
  if (name === "gate/up") {
    const how = { kind: "silu", gated: true, scratch: out };
    linearActivate(on, { count, out: activated, x, weight, ...how });
  } else {
    linear(on, { count, out, x, weight, accumulate: name === "down" || name === "o" });
  }
}

/** By cuBLASLt whatever the rows. */
function enqueueProduct({ weights, x, out }, { count, place }) {
  const weight = weights[place % weights.length];
  const { rows: outputs, columns: inputs } = weight;
  context.products?.multiply(
    { rows: count, outputs, inputs, element: "bf16", out: "f32" },
    { out: out.address, x: x.address, weight: weight.address },
  );
}

/** Microseconds of one of `launches` in a graph. */
function microseconds(launch, launches) {
  launch(0); // Sizes of scratch, and ways of cuBLASLt, are settled outside of a capture.
  const graph = stream.capture(() => {
    for (let place = 0; place < launches; place++) launch(place);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), 9);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

/** Each way that can, by name. */
function waysOf(name, operands, count) {
  const on = (where) => (place) => enqueue(where, name, operands, { count, place });
  const product = (place) => enqueueProduct(operands, { count, place });
  return Object.entries({
    stream: count <= 16 ? on(context) : null,
    few: count <= 16 ? on(older) : null,
    cuBLASLt: name === "gate/up" ? on(noKernels) : product,
  });
}

const gigabytes = copySpeed(session, scale === 1 ? 4 << 30 : 1 << 20);
console.log(`${gpuText(gpu)}; copy ${gigabytes.toFixed(0)} GB/s`);
for (const [name, full] of Object.entries(shapes)) {
  if (flags.only !== undefined && !flags.only.split(",").includes(name)) continue;
  const shape = full.map((size) => size / scale);
  const operands = operandsOf(shape);
  const bytes = shape[0] * shape[1] * 2;
  const launches = Math.max(operands.weights.length, 8);
  for (const count of rowCounts) {
    const cells = waysOf(name, operands, count).map(([way, launch]) => {
      if (launch === null) return `${way} -`.padEnd(28);
      const us = microseconds(launch, launches);
      const share = (bytes / us / 1e3 / gigabytes) * 100;
      return `${way} ${us.toFixed(1)} us ${share.toFixed(0)} %`.padEnd(28);
    });
    console.log(`${name.padEnd(8)} ${String(count).padStart(3)} rows  ${cells.join("")}`);
  }
  const regions = [...operands.weights, operands.x, operands.out, operands.activated];
  for (const { address } of regions) memory.release(address);
}
session.dispose();
