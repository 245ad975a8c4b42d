// node bench/gpu/limits.mjs [--json]
//
// What the GPU and the way to it allow, medians: copy bandwidth (bytes read plus written), the bus,
// matrix products, and what a launch costs from JavaScript. Ceilings for other measurements of the
// same run; random data, since zeros are faster.
import { parseArgs } from "node:util";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CublasLt } from "../../dist/devices/cuda/cublaslt.js";
import { CudaSession } from "../../dist/devices/cuda/cuda-session.js";
import { CudaEvent } from "../../dist/devices/cuda/event.js";
import { gpuText } from "../../dist/devices/cuda/gpu.js";
import { KernelParams } from "../../dist/devices/cuda/kernel-params.js";
import { Matmul } from "../../dist/devices/cuda/matmul.js";

const { values: flags } = parseArgs({
  options: { json: { type: "boolean" }, mebibytes: { type: "string" } },
});

const settings = cudaFromEnvironment();
const session = await CudaSession.open({ settings });
const { driver, stream, memory, staging, context } = session;
const results = { gpu: gpuText(session.gpu) };

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Milliseconds of `enqueue` on the GPU: median of `runs`, after two that warm up. */
function gpuMs(enqueue, runs = 15) {
  const [start, end] = [new CudaEvent(driver, true), new CudaEvent(driver, true)];
  const times = Array.from({ length: runs + 2 }, () => {
    start.record(stream);
    enqueue();
    end.record(stream);
    end.wait();
    return end.elapsedMs(start);
  });
  for (const event of [start, end]) event.destroy();
  return median(times.slice(2));
}

/** Device memory of random bytes: a random megabyte, repeated. */
function randomMemory(bytes, what) {
  const address = memory.allocate(bytes, what);
  const seed = Uint32Array.from({ length: 1 << 18 }, () => Math.random() * 2 ** 32);
  // Exponents below 128 and a sign: finite numbers in bf16 and f32.
  for (let i = 0; i < seed.length; i++) seed[i] &= 0xbf7f_bf7f;
  for (let start = 0; start < bytes; start += seed.byteLength) {
    staging.upload(address + BigInt(start), seed.subarray(0, (bytes - start) >> 2));
  }
  return address;
}

function measureMemory(bytes) {
  const [from, to] = [randomMemory(bytes, "a source"), memory.allocate(bytes, "a target")];
  const host = memory.allocateHost(bytes, "pinned memory");
  const copy = (call, a, b) => () => driver.run(call, a, b, bytes, stream.handle);
  const gigabytes = (ms, factor) => (factor * bytes) / ms / 1e6;
  results.copyGBs = gigabytes(gpuMs(copy("cuMemcpyDtoDAsync", to, from)), 2);
  results.toHostGBs = gigabytes(gpuMs(copy("cuMemcpyDtoHAsync", host, from), 5), 1);
  results.toDeviceGBs = gigabytes(gpuMs(copy("cuMemcpyHtoDAsync", to, host), 5), 1);
  for (const address of [from, to, host]) memory.release(address);
}

/** TFLOP/s of a square product of bf16, best of cuBLASLt's first ways. */
function measureProducts(size) {
  const cublas = CublasLt.open(settings, driver.version);
  const handle = cublas.create("cublasLtCreate");
  const shape = { rows: size, outputs: size, inputs: size, element: "bf16", out: "f32" };
  const matmul = new Matmul(cublas, shape);
  const workspaceBytes = 64 << 20;
  const workspace = memory.allocate(workspaceBytes, "a workspace");
  const [x, weight] = [0, 1].map(() => randomMemory(2 * size * size, "a matrix"));
  const out = memory.allocate(4 * size * size, "a product");
  const times = matmul.algorithms(handle, workspaceBytes, 4).map((algorithm) => {
    const launch = { handle, algorithm, workspace, stream: stream.handle };
    return gpuMs(() => matmul.run({ out, x, weight }, launch), 7);
  });
  results.bf16TFLOPs = (2 * size ** 3) / Math.min(...times) / 1e9;
  for (const address of [x, weight, out, workspace]) memory.release(address);
  matmul.destroy();
}

/** Microseconds of the host for a launch, and of the GPU for one of a graph's kernels. */
function measureLaunches() {
  const count = 300;
  const [x, delta] = [0, 1].map(() => memory.allocate(4096, "a short row"));
  const params = new KernelParams(["pointer", "pointer", "i64"]);
  const { launcher, kernels } = context;
  const launchAll = () => {
    for (let i = 0; i < count; i++) {
      launcher.launch(kernels.add, { grid: [1], threads: 256 }, params.fill(x, delta, 256));
    }
  };
  const hostUs = (action) => {
    const times = Array.from({ length: 25 }, () => {
      stream.synchronize();
      const start = performance.now();
      action();
      return (performance.now() - start) * 1000;
    });
    return median(times);
  };
  results.launchUs = hostUs(launchAll) / count;
  const graph = stream.capture(launchAll);
  const runnable = graph.instantiate();
  runnable.upload(stream);
  results.graphLaunchUs = hostUs(() => runnable.launch(stream));
  results.graphMsOf300 = gpuMs(() => runnable.launch(stream));
  results.waitUs = hostUs(() => stream.synchronize());
  const word = Int32Array.of(1);
  results.writeUs =
    hostUs(() => {
      for (let i = 0; i < count; i++) staging.upload(x, word);
    }) / count;
  results.readUs = hostUs(() => staging.download(word, x));
  for (const each of [runnable, graph]) each.destroy();
}

const mebibytes = Number(flags.mebibytes ?? 4096);
measureMemory(mebibytes * 2 ** 20);
measureProducts(mebibytes >= 1024 ? 8192 : 64);
measureLaunches();
if (flags.json) console.log(JSON.stringify(results, null, 2));
else
  for (const [name, value] of Object.entries(results)) {
    console.log(`${name.padEnd(16)}${typeof value === "number" ? value.toPrecision(4) : value}`);
  }
session.dispose();
