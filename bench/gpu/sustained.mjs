// node bench/gpu/sustained.mjs [--rows 8192] [--seconds 0.4] [--model FOLDER] [--json FILE]
//
// cuBLASLt's products of a prompt of Llama-3.1-8B: a few at a time, as the ceilings of other
// scripts are measured, and without a pause for --seconds, of which the second half counts. What
// lies between is the card's power limit: clock and watts beside, where nvidia-smi tells them. Each
// time the fastest of cuBLASLt's ways, in bf16 with random data, on matrices of one layer.
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild, writeJson } from "./gpu-bench.mjs";
import { llamaFolder, readShape } from "./shape.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CublasLt } = await import("../../dist/devices/cuda/products/cublaslt.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { Matmul } = await import("../../dist/devices/cuda/products/matmul.js");
const { describeMachine } = await import("../machine.mjs");

const { values: flags } = readFlags({
  options: {
    rows: { type: "number", default: 8192, min: 1 },
    seconds: { type: "number", default: 0.4 },
    model: { type: "string", default: llamaFolder },
    json: { type: "string" },
  },
});
const rows = flags.rows;
const wantedMs = 1000 * flags.seconds;
const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings }));
const { memory, stream } = session;
const cublas = await openOrGiveUp(() => CublasLt.open(settings, session.driver.version));
const handle = cublas.create("cublasLtCreate");
const workspaceBytes = 32 << 20;
const waysMax = 8;
const workspace = memory.allocate(workspaceBytes, "workspace of GEMMs");
/** Between two products, so that the clock is up again. */
const restMs = 60;
/** Time that is waited for at once under load. */
const waitMs = 30;

/** Clock and power as nvidia-smi says them, every 50 ms; without one it knows nothing. */
class PowerMeter {
  #samples = [];
  #child;

  constructor() {
    const query = "--query-gpu=clocks.sm,power.draw.instant";
    const format = ["--format=csv,noheader,nounits", "-lms", "50"];
    this.#child = spawn("nvidia-smi", [query, ...format], { stdio: ["ignore", "pipe", "ignore"] });
    this.#child.on("error", () => {});
    this.#child.stdout?.on("data", (text) => {
      const [megahertz, watts] = String(text).trim().split("\n").at(-1).split(", ").map(Number);
      if (watts > 0) this.#samples.push({ at: performance.now(), megahertz, watts });
    });
  }

  /** Means since a time of `performance.now()`; nulls where nothing was said. */
  since(begin) {
    const seen = this.#samples.filter(({ at }) => at >= begin);
    const mean = (key) =>
      seen.length === 0 ? null : seen.reduce((sum, each) => sum + each[key], 0) / seen.length;
    return { megahertz: mean("megahertz"), watts: mean("watts") };
  }

  stop() {
    this.#child.kill();
  }
}

/** Milliseconds of one product when no other follows soon, and when they never end. */
async function timeWay(enqueue, meter) {
  stream.synchronize();
  await sleep(restMs);
  const burstMs = gpuMs(session, enqueue, 3, 0);
  // An emulated GPU has no clock.
  const together = burstMs > 0 ? Math.ceil(waitMs / burstMs) : 1;
  const begun = performance.now();
  const times = [];
  while (performance.now() - begun < wantedMs) {
    const counts = performance.now() - begun >= wantedMs / 2;
    const enqueueAll = () => {
      for (let i = 0; i < together; i++) enqueue();
    };
    const elapsedMs = gpuMs(session, enqueueAll, 1, 0) / together;
    if (counts) times.push(elapsedMs);
  }
  // Lets the meter's samples in.
  await sleep(1);
  const sustainedMs = times.reduce((sum, each) => sum + each, 0) / times.length;
  return { burstMs, sustainedMs, ...meter.since(begun + wantedMs / 2) };
}

/** The fastest way of a product in either case. */
async function measure({ name, outputs, inputs, out }, meter) {
  const matmul = new Matmul(cublas, { rows, outputs, inputs, element: "bf16", out });
  const [weight, x, product] = [2 * outputs * inputs, 2 * rows * inputs, 4 * rows * outputs].map(
    (bytes) => {
      const address = memory.allocate(bytes, "an operand of a product");
      fillRandom(session, address, bytes);
      return address;
    },
  );
  const found = [];
  for (const algorithm of matmul.algorithms(handle, workspaceBytes, waysMax)) {
    const launch = { handle, algorithm, workspace, stream: stream.handle };
    const enqueue = () => matmul.tryRun({ out: product, x, weight }, launch);
    if (enqueue()) found.push(await timeWay(enqueue, meter));
  }
  for (const address of [weight, x, product]) memory.release(address);
  matmul.destroy();
  const burstMs = Math.min(...found.map((each) => each.burstMs));
  const best = found.toSorted((a, b) => a.sustainedMs - b.sustainedMs)[0];
  const teraflops = (ms) => (2 * rows * outputs * inputs) / ms / 1e9;
  return {
    ...{ name, ...best, burstMs, ways: found.length },
    burstTFLOPs: teraflops(burstMs),
    sustainedTFLOPs: teraflops(best.sustainedMs),
  };
}

const { hidden, feedForward, qkvRows } = readShape(flags.model);
const linears = [
  { name: "qkv", outputs: qkvRows, inputs: hidden, out: "f32" },
  { name: "o", outputs: hidden, inputs: hidden, out: "f32" },
  { name: "gate, up", outputs: 2 * feedForward, inputs: hidden, out: "bf16" },
  { name: "down", outputs: hidden, inputs: feedForward, out: "f32" },
];
const columns = [
  { title: "product", left: true, of: ({ name }) => name },
  { title: "burst us", of: ({ burstMs }) => 1000 * burstMs },
  { title: "TFLOP/s", of: ({ burstTFLOPs }) => burstTFLOPs },
  { title: "sustained us", of: ({ sustainedMs }) => 1000 * sustainedMs },
  { title: "TFLOP/s", of: ({ sustainedTFLOPs }) => sustainedTFLOPs },
  { title: "MHz", of: ({ megahertz }) => megahertz },
  { title: "W", of: ({ watts }) => watts },
];

const gpu = gpuText(session.gpu);
console.log(`${gpu}: ${rows} rows`);
const meter = new PowerMeter();
await sleep(300);
const results = [];
for (const linear of linears) results.push(await measure(linear, meter));
meter.stop();
console.log(textTable(columns, results));
writeJson(flags.json, { machine: { ...describeMachine(), gpu }, rows, results });
cublas.run("cublasLtDestroy", handle);
session.dispose();
