// node bench/gpu/limits.mjs [--json]
//
// What the GPU and the way to it allow, medians: copy bandwidth (bytes read plus written), the bus,
// matrix products, and what a launch costs from JavaScript. Ceilings for other measurements of the
// same run; random data, since zeros are faster.

import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { copySpeed, fillRandom, gpuMs, productCeiling } from "../../dist/devices/cuda/ceilings.js";
import { CudaSession } from "../../dist/devices/cuda/cuda-session.js";
import { gpuText } from "../../dist/devices/cuda/driver/gpu.js";
import { KernelParams } from "../../dist/devices/cuda/kernels/kernel-params.js";
import { readFlags } from "../../tools/flags.mjs";
import { median } from "../machine.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";

const { values: flags } = readFlags({
  options: { json: { type: "boolean" }, mebibytes: { type: "number", default: 4096, min: 1 } },
});

const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings }));
const { driver, stream, memory, staging, context } = session;
const results = { gpu: gpuText(session.gpu) };

const ms = (enqueue, runs) => gpuMs(session, enqueue, runs);

/** The bus between host and GPU. */
function measureBus(bytes) {
  const [device, host] = [
    memory.allocate(bytes, "a target"),
    memory.allocateHost(bytes, "a source"),
  ];
  fillRandom(session, device, bytes);
  const gigabytes = (call, to, from) =>
    bytes / ms(() => driver.run(call, to, from, bytes, stream.handle), 5) / 1e6;
  results.toHostGBs = gigabytes("cuMemcpyDtoHAsync", host, device);
  results.toDeviceGBs = gigabytes("cuMemcpyHtoDAsync", device, host);
  for (const address of [device, host]) memory.release(address);
}

/** Microseconds of the host for a launch, and of the GPU for one of a graph's kernels. */
function measureLaunches() {
  const count = 300;
  const [x, delta] = [0, 1].map(() => memory.allocate(4096, "a short row"));
  const params = new KernelParams(["pointer", "pointer", "i64", "i32"]);
  const { launcher, kernels } = context;
  const launchAll = () => {
    for (let i = 0; i < count; i++) {
      launcher.launch(kernels.add, { grid: [1], threads: 256 }, params.fill(x, delta, 256, -1));
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
  results.graphMsOf300 = ms(() => runnable.launch(stream));
  results.waitUs = hostUs(() => stream.synchronize());
  const word = Int32Array.of(1);
  results.writeUs =
    hostUs(() => {
      for (let i = 0; i < count; i++) staging.upload(x, word);
    }) / count;
  results.readUs = hostUs(() => staging.download(word, x));
  for (const each of [runnable, graph]) each.destroy();
}

const { mebibytes } = flags;
results.copyGBs = copySpeed(session, mebibytes * 2 ** 20);
measureBus(mebibytes * 2 ** 20);
const products = productCeiling(session, mebibytes >= 1024 ? 8192 : 64, { settings });
results.bf16TFLOPs = products.bf16TFLOPs ?? products.bf16Unknown;
measureLaunches();
if (flags.json) console.log(JSON.stringify(results, null, 2));
else
  for (const [name, value] of Object.entries(results)) {
    console.log(`${name.padEnd(16)}${typeof value === "number" ? value.toPrecision(4) : value}`);
  }
session.dispose();
