// node bench/gpu/linears-i8.mjs [--rows 33,48,64,512,8192] [--only down,head] [--scale 1]
//
// The linears of Llama-3.1-8B in i8 for many rows, in microseconds, by every kernel that can: the
// one that reads a matrix once per 8 rows (native/cuda/linear.cu) and those on tensor cores
// (native/cuda/linear-i8.cu), by the rows of their tiles. Medians of a graph of launches. A star
// has the one that the op takes, whose rate is at the end; where that is far from the fastest, the
// costs in src/devices/cuda/ops/linear-i8.ts or I8_ROWS_MAX of ops/linear.ts are wrong. --scale
// divides all sizes, for an emulated GPU.
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { CudaActivation, CudaMatrix, CudaTensor, rowBytes } = await import(
  "../../dist/devices/cuda/memory/handles.js"
);
const { I8_TILES, i8TileFor } = await import("../../dist/devices/cuda/ops/linear-i8.js");
const { I8_ROWS_MAX, linearI8 } = await import("../../dist/devices/cuda/ops/linear.js");

const defaultRows = [17, 24, 32, 33, 40, 48, 56, 64, 80, 96, 128, 256, 512, 2048, 8192];
const { values: flags } = readFlags({
  options: {
    rows: { type: "numbers", default: defaultRows, min: 1 },
    only: { type: "string" },
    scale: { type: "number", default: 1, min: 1 },
  },
});
const scale = flags.scale;
const rowCounts = flags.rows;
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
/** The kernel for few rows, and every tile for many that this GPU has the shared memory for. */
const ways = [null, ...I8_TILES.filter(({ sharedBytes }) => sharedBytes <= gpu.sharedBytesMax)];

/** Random bytes: values do not change what a product takes. */
function randomRows(Rows, rows, columns) {
  const bytes = rows * rowBytes("i8", columns);
  const address = memory.allocate(bytes, "random rows");
  fillRandom(session, address, bytes);
  return new Rows("i8", rows, columns, address);
}

/** Microseconds of one product. */
function microseconds(input, tile) {
  linearI8(context, input, tile);
  const graph = stream.capture(() => {
    for (let i = 0; i < launches; i++) linearI8(context, input, tile);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), scale === 1 ? 5 : 1);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

/** All ways, a line. */
function timesOf([outputs, columns], input) {
  const { count } = input;
  const taken = count <= I8_ROWS_MAX ? null : i8TileFor(gpu, { count, outputs });
  let rate = 0;
  const cells = ways.map((tile) => {
    const us = microseconds(input, tile);
    if (tile === taken) rate = (2 * count * outputs * columns) / us / 1e6;
    const name = tile === null ? "rows" : `tile ${tile.rows}`;
    return `${name} ${us.toFixed(1)}${tile === taken ? "*" : ""}`.padEnd(18);
  });
  return `${String(count).padStart(5)} rows  ${cells.join("")}${rate.toFixed(1)} Top/s`;
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
