// node bench/gpu/attend-decode.mjs [--work 1x128,1x576,8x576,64x576,256x576,1x100000] [--runs 9]
//
// Decode attention alone, one layer of Llama-3.1-8B in bf16 for batches of BATCHxCONTEXT, by each
// way that there is: as the product chooses; stream-K (attend-decode.h), with other numbers in its
// sources; 1 to 16 splits of each query tile (attend-decode-split.h), of fewer warps where there
// are many query tiles.
// Microseconds, and the share of the copy bandwidth that was measured in this run; medians of a
// graph of launches that take turns on layers and blocks of more than the second cache holds.
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { copySpeed, fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { architectureOf, gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { KernelModule } = await import("../../dist/devices/cuda/kernels/kernel-module.js");
const { readKernel } = await import("../../dist/devices/cuda/kernels/kernel-sources.js");
const { compileOptions } = await import("../../dist/devices/cuda/kernels/kernels.js");
const { Nvrtc } = await import("../../dist/devices/cuda/kernels/nvrtc.js");
const { attendDecode, decodeRowsOf } = await import("../../dist/devices/cuda/ops/attend-decode.js");
const { KernelBatch, layerCount, randomCache } = await import("./kernel-inputs.mjs");
const { readShape } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    work: { type: "string", default: "1x128,1x576,8x576,16x576,64x576,256x576,1x4096,1x100000" },
    runs: { type: "number", default: 9, min: 1 },
  },
});

const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings, warn: console.warn }));
const { context, driver, gpu, stream } = session;
const device = new CudaDevice(session);
const shape = readShape();
/** Milliseconds that a graph should take at least, and launches that it has at most. */
const graphMs = 2;
const launchesMax = 512;

/** The kernel alone, so that it compiles fast, with some constants changed. */
function compiled(file, line, constants = {}) {
  const { path, text, headers } = readKernel(file);
  const changed = Object.entries(headers).map(([name, body]) => {
    const edits = Object.entries(constants);
    const pattern = (constant) => new RegExp(`(constexpr int ${constant} =) \\d+;`);
    return [name, edits.reduce((all, [key, to]) => all.replace(pattern(key), `$1 ${to};`), body)];
  });
  const include = text.split("\n").find((each) => each.startsWith("#include"));
  const source = { path, text: `${include}\n${line}\n`, headers: Object.fromEntries(changed) };
  const nvrtc = Nvrtc.open(settings, driver.version);
  const cubin = nvrtc.compile(source, compileOptions(architectureOf(gpu)));
  return new KernelModule(driver, cubin);
}

/** Ops with one kernel replaced. */
function withKernel(name, module) {
  return { ...context, kernels: { ...context.kernels, [name]: module.kernel(name) } };
}

function streamKWith(blocks, constants) {
  const name = "attend_decode_128_bf16";
  const line = `PERIGEE_ATTEND_DECODE(${name}, Bf16, 128, 1, ${blocks})`;
  return withKernel(name, compiled("attend-decode-128", line, constants));
}

/** Splits of `warps` warps, as many a multiprocessor as its registers are enough for. */
function splitWith(constants, warps = 12) {
  const name = "attend_decode_split_128_bf16";
  const line =
    `PERIGEE_KERNEL __launch_bounds__(${32 * warps}, ${12 / warps}) perigee_${name}(` +
    "const __grid_constant__ perigee::AttendDecodeParams p) " +
    `{ perigee::attendDecodeSplit<perigee::Bf16, 128, 1, ${warps}>(p); }`;
  return withKernel(name, compiled("attend-decode-split-128", line, constants));
}

/** Contexts with other kernels than the product's, by what is different. */
const streamKVariants = {
  "2 blocks a multiprocessor": streamKWith(2),
  "4 blocks a multiprocessor": streamKWith(4),
  "1 tile a warp at least": streamKWith(3, { kWarpTilesMin: 1 }),
  "4 tiles a warp at least": streamKWith(3, { kWarpTilesMin: 4 }),
};
const narrowSplits = Object.entries({
  3: splitWith({}, 3),
  4: splitWith({}, 4),
  6: splitWith({}, 6),
});

/** [name, context, choice] of every way that suits a batch. */
function waysOf(batch) {
  const queryTiles = batch * shape.kvHeads;
  const fitting = [1, 2, 4, 8, 16].filter((each) => each * queryTiles <= 2 * gpu.multiprocessors);
  const isFew = fitting.length > 2;
  return [
    ["as chosen", context, {}],
    ["stream-K", context, { splits: 0 }],
    ...(isFew ? [] : Object.entries(streamKVariants)).map(([name, on]) => [
      ...[`stream-K, ${name}`, on, { splits: 0 }],
    ]),
    ...(fitting.length === 0 ? [1] : fitting).map((splits) => [
      ...[`splits: ${splits}`, context, { splits }],
    ]),
    ...(isFew ? [] : narrowSplits).flatMap(([warps, on]) =>
      [1, 2].map((splits) => [
        ...[`splits: ${splits}, of ${warps} warps`, on, { splits, warps: Number(warps) }],
      ]),
    ),
  ];
}

/** Microseconds of one launch of many in a graph. */
function microseconds(launch, places) {
  launch(0); // Sizes of scratch are settled outside of a capture.
  const onceMs = gpuMs(session, () => launch(0), 3) || graphMs;
  const wanted = Math.max(places, Math.ceil(graphMs / onceMs));
  const launches = Math.min(wanted, launchesMax);
  const graph = stream.capture(() => {
    for (let place = 0; place < launches; place++) launch(place);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), flags.runs);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

function measure({ batch, context: length }, cache, gigabytes) {
  const { heads, kvHeads, headDim } = shape;
  const steps = new KernelBatch({ device }, cache, {
    ...{ batch, context: length, count: 1, vocabulary: shape.vocabulary },
  });
  const query = device.allocate("f32", [batch, heads * headDim]);
  fillRandom(session, query.address, 4 * batch * heads * headDim, "f32");
  const out = device.allocateActivation("bf16", batch, heads * headDim);
  const bytes = batch * length * 2 * kvHeads * headDim * 2;
  const boundUs = bytes / gigabytes / 1e3;
  const [kib, us] = [bytes / 1024, boundUs].map((value) => value.toFixed(1));
  console.log(`\nbatch ${batch}, context ${length}: ${kib} KiB, ${us} us by copies`);
  for (const [name, on, choice] of waysOf(batch)) {
    const took = microseconds((place) => {
      const input = {
        ...{ count: batch, out, query, heads, cache, layer: place % layerCount },
        scale: 1 / Math.sqrt(headDim),
        batch: steps.sets[Math.floor(place / layerCount) % steps.sets.length].batch,
      };
      attendDecode(on, input, { decodeRows: decodeRowsOf(input), ...choice });
    }, steps.places);
    const share = `${((boundUs / took) * 100).toFixed(1)} %`;
    console.log(`${name.padEnd(36)}${took.toFixed(2).padStart(9)} us${share.padStart(9)}`);
  }
  stream.synchronize();
  steps.release();
  for (const each of [query, out]) device.release(each);
}

const work = flags.work.split(",").map((text) => {
  const [batch, length] = text.split("x").map(Number);
  return { batch, context: length };
});
const isSmall = session.memory.size().totalBytes < 24e9;
const gigabytes = copySpeed(session, isSmall ? 2 ** 20 : 4 * 2 ** 30);
console.log(`${gpuText(gpu)}; copy ${gigabytes.toFixed(0)} GB/s`);
const cache = randomCache(
  { device, session },
  shape,
  Math.max(...work.map((each) => each.batch * (each.context + 16))),
);
for (const each of work) measure(each, cache, gigabytes);
device.dispose();
