// node bench/gpu/linears-i8.mjs [--rows 33,48,64,512,8192] [--only down,head] [--scale 1]
//
// The linears of Llama-3.1-8B in i8 for many rows, by both kernels that can: the one that reads a
// matrix once per 8 rows (native/cuda/linear.cu) and the one on tensor cores
// (native/cuda/linear-i8.cu). Microseconds and tera-operations per second; medians of a graph of
// launches. Says from how many rows on the second one is faster: I8_ROWS_MAX of
// src/devices/cuda/ops/linear.ts. --scale divides all sizes, for an emulated GPU.
import { parseArgs } from "node:util";
import { openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/gpu.js");
const { CudaActivation, CudaMatrix, CudaTensor, rowBytes } = await import(
  "../../dist/devices/cuda/handles.js"
);
const { linear } = await import("../../dist/devices/cuda/ops/linear.js");

const { values: flags } = parseArgs({
  options: {
    rows: { type: "string", default: "33,48,64,128,512,2048,8192" },
    only: { type: "string" },
    scale: { type: "string", default: "1" },
  },
});
const scale = Number(flags.scale);
const rowCounts = flags.rows.split(",").map(Number);
const launches = scale === 1 ? 4 : 1;

/** [outputs, columns]. */
const shapes = {
  qkv: [6144, 4096],
  o: [4096, 4096],
  "gate/up": [28_672, 4096],
  down: [4096, 14_336],
};

const session = await openOrGiveUp(() =>
  CudaSession.open({ settings: cudaFromEnvironment(), warn: console.warn }),
);
const { context, gpu, memory, stream } = session;
/** Ops on this GPU as if no block had so much shared memory as the tensor cores' kernel takes. */
const rowByRow = { ...context, gpu: { ...gpu, sharedBytesMax: 0 } };

/** Random bytes: values do not change what a product takes. */
function randomRows(Rows, rows, columns) {
  const bytes = rows * rowBytes("i8", columns);
  const address = memory.allocate(bytes, "random rows");
  fillRandom(session, address, bytes);
  return new Rows("i8", rows, columns, address);
}

/** Microseconds of one product. */
function microseconds(on, input) {
  linear(on, input);
  const graph = stream.capture(() => {
    for (let i = 0; i < launches; i++) linear(on, input);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), scale === 1 ? 5 : 1);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

/** Both ways, a line. */
function timesOf([outputs, columns], { count, x, weight, out }) {
  const cells = Object.entries({ rows: rowByRow, tensor: context }).map(([way, on]) => {
    const us = microseconds(on, { count, out, x, weight });
    const rate = (2 * count * outputs * columns) / us / 1e6;
    return `${way} ${us.toFixed(1)} us ${rate.toFixed(1)} Top/s`.padEnd(34);
  });
  return `${String(count).padStart(5)} rows  ${cells.join("")}`;
}

console.log(gpuText(gpu));
for (const [name, full] of Object.entries(shapes)) {
  if (flags.only !== undefined && !flags.only.split(",").includes(name)) continue;
  const [outputs, columns] = full.map((size) => size / scale);
  const rowsMax = Math.max(...rowCounts);
  const weight = randomRows(CudaMatrix, outputs, columns);
  const x = randomRows(CudaActivation, rowsMax, columns);
  const plain = memory.allocate(rowsMax * outputs * 4, "a product");
  const out = new CudaTensor("f32", [rowsMax, outputs], plain);
  for (const count of rowCounts) {
    const line = timesOf([outputs, columns], { count, x, weight, out });
    console.log(`${name.padEnd(8)} ${line}`);
  }
  for (const { address } of [weight, x, out]) memory.release(address);
}
session.dispose();
