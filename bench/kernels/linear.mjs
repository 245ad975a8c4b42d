/**
 * node bench/kernels/linear.mjs [--shapes smol135,pocket,qwen05] [--rows 1,8,16,512]
 *     [--formats q8,Q4_0,Q4_K,bf16,f32] [--threads N] [--isa avx2] [--reps 5] [--weight-mb 96]
 *     [--check] [--out FILE]
 *
 * Matrix products of one decoder layer on the cpu device, beside what the processor can do at best
 * (memory read by all threads, products in registers), measured in the same run. Needs a build.
 * With --check it compares instead: products of every type of block have the same bits with each
 * instruction set of this processor, for 1 to 40 rows.
 */
import { writeFileSync } from "node:fs";
import { CpuDevice } from "../../dist/devices/cpu/cpu-device.js";
import { availableIsas } from "../../dist/devices/cpu/isa.js";
import { isBuilt, loadLibrary } from "../../dist/devices/cpu/library.js";
import { BLOCK_TYPES } from "../../dist/tensor/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { randomBlocks } from "../gguf-blocks.mjs";
import { describeMachine, median } from "../machine.mjs";
import { measureLimits } from "./limits.mjs";

/** [outputs, inputs] of a layer's products: qkv, attention output, gate and up, down. */
const LAYERS = {
  smol135: [
    [960, 576],
    [576, 576],
    [3072, 576],
    [576, 1536],
  ],
  pocket: [
    [640, 384],
    [384, 384],
    [2048, 384],
    [384, 1024],
  ],
  qwen05: [
    [1152, 896],
    [896, 896],
    [9728, 896],
    [896, 4864],
  ],
  qwen15: [
    [2048, 1536],
    [1536, 1536],
    [17920, 1536],
    [1536, 8960],
  ],
};
const MIN_MS = 40;

const { values: flags } = readFlags({
  options: {
    shapes: { type: "string", default: "smol135,qwen05" },
    rows: { type: "numbers", default: [1, 8, 16, 512], min: 1 },
    formats: { type: "string", default: "q8,Q4_0,Q4_K,bf16,f32" },
    threads: { type: "number", min: 1 },
    isa: { type: "string" },
    // Weights of one measurement: more than the last cache, so that every step reads memory.
    "weight-mb": { type: "number", default: 96, min: 1 },
    reps: { type: "number", default: 5, min: 1 },
    check: { type: "boolean", default: false },
    out: { type: "string" },
  },
});
const weightBytes = 1e6 * flags["weight-mb"];
let library, threads, device, limits;
if (flags.check) {
  process.exitCode = (await checkBits()) ? 0 : 1;
} else {
  measureAll();
}

function measureAll() {
  library = loadLibrary(flags.isa);
  threads = flags.threads === undefined ? library.coreCount() : flags.threads;
  device = CpuDevice.open({ isa: library.isa, threads });
  limits = measureLimits(library.isa, threads, weightBytes);
  const results = [];
  for (const name of flags.shapes.split(",")) {
    for (const format of flags.formats.split(",")) {
      const layers = packLayers(LAYERS[name], format);
      for (const rows of flags.rows) {
        results.push({ shape: name, format, rows, ...measure(layers, format, rows) });
        print(results.at(-1));
      }
      for (const matrix of layers.flat()) device.release(matrix);
    }
  }
  device.dispose();
  if (flags.out !== undefined) {
    const report = { machine: describeMachine(), isa: library.isa, threads, limits, results };
    writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
  }
}

/** Whether all instruction sets agree; prints what each type came to. */
async function checkBits() {
  const isas = availableIsas().filter(isBuilt);
  const devices = isas.map((isa) => CpuDevice.open({ isa, threads: 2 }));
  const [rows, columns] = [150, 768];
  let right = true;
  for (const { name } of BLOCK_TYPES) {
    let different = 0;
    for (let count = 1; count <= 40; count++) {
      const [first, ...others] = await Promise.all(
        devices.map((each) => product(each, { name, count, rows, columns })),
      );
      different += others.filter((bits) => Buffer.compare(first, bits) !== 0).length;
    }
    right &&= different === 0;
    console.log(`${name.padEnd(7)} ${isas.join(", ")}: ${different} of 40 batches differ`);
  }
  for (const each of devices) each.dispose();
  return right;
}

async function product(on, { name, count, rows, columns }) {
  const packed = { type: name, blocks: () => blocksOf(name, rows * columns) };
  const source = { name, dtype: "f32", shape: [rows, columns], packed, discard() {} };
  const weight = on.pack([source], { format: "q8" });
  const values = on.allocate("f32", [count, columns]);
  on.write(
    values,
    Float32Array.from({ length: count * columns }, (_, i) => Math.cos(i * i)),
  );
  const x = on.allocateActivation("q8", count, columns);
  on.convert({ count, out: x, x: values });
  const out = on.allocate("f32", [count, rows]);
  on.linear({ count, out, x, weight });
  const bits = Buffer.from((await on.readF32(out)).buffer);
  for (const memory of [weight, values, x, out]) on.release(memory);
  return bits;
}

/** Layers with weights of their own, as many as `weightBytes` holds. */
function packLayers(shapes, format) {
  const pack = ([outputs, inputs]) => {
    const source = { name: "w", dtype: "f32", shape: [outputs, inputs], discard() {} };
    const type = BLOCK_TYPES.find(({ name }) => name === format);
    if (type !== undefined) {
      const packed = { type: type.name, blocks: () => blocksOf(type.name, outputs * inputs) };
      return device.pack([{ ...source, packed }], { format: "q8" });
    }
    const values = Float32Array.from({ length: outputs * inputs }, (_, i) => Math.sin(i));
    const bytes = () => new Uint8Array(values.buffer);
    return device.pack([{ ...source, bytes }], { format });
  };
  const first = shapes.map(pack);
  const layerBytes = first.reduce((sum, matrix) => sum + matrix.bytes, 0);
  const count = Math.max(1, Math.ceil(weightBytes / layerBytes));
  return [first, ...Array.from({ length: count - 1 }, () => shapes.map(pack))];
}

function blocksOf(name, elements) {
  const random = () => 0.25;
  return randomBlocks({ type: name.toLowerCase(), count: elements, deviation: 0.02, random });
}

/** Median time of all layers' products for `rows` rows. */
function measure(layers, name, rows) {
  const format = BLOCK_TYPES.some((type) => type.name === name) ? "q8" : name;
  const problems = layers.flat().map((weight) => ({
    count: rows,
    weight,
    x: activation(format, rows, weight.columns),
    out: output(rows, weight.rows),
  }));
  const bytes = layers.flat().reduce((sum, matrix) => sum + matrix.bytes, 0);
  const macs = problems.reduce((sum, { weight }) => sum + weight.rows * weight.columns, 0) * rows;
  const run = () => {
    for (const problem of problems) device.linear(problem);
  };
  run();
  const seconds = median(Array.from({ length: flags.reps }, () => timed(run)));
  release();
  const gmacs = macs / seconds / 1e9;
  const gbytes = bytes / seconds / 1e9;
  return {
    ms: round(seconds * 1e3),
    gflops: round(2 * gmacs),
    shareOfPeak: round(gmacs / limits.gmacs[format === "q8" ? "i8" : format]),
    weightGBs: round(gbytes),
    shareOfBandwidth: round(gbytes / limits.readGBs),
  };
}

/** Seconds of one run, from as many as fill MIN_MS. */
function timed(run) {
  const start = performance.now();
  let runs = 0;
  do {
    run();
    runs++;
  } while (performance.now() - start < MIN_MS);
  return (performance.now() - start) / runs / 1e3;
}

function activation(format, rows, columns) {
  return cached(`x ${format} ${rows} ${columns}`, () => {
    const x = device.allocate("f32", [rows, columns]);
    device.write(
      x,
      Float32Array.from({ length: rows * columns }, (_, i) => Math.cos(i)),
    );
    const out = device.allocateActivation(format, rows, columns);
    device.convert({ count: rows, out, x });
    device.release(x);
    return out;
  });
}

function output(rows, columns) {
  return cached(`out ${rows} ${columns}`, () => device.allocate("f32", [rows, columns]));
}

function cached(key, make) {
  cached.made ??= new Map();
  if (!cached.made.has(key)) cached.made.set(key, make());
  return cached.made.get(key);
}

function release() {
  for (const memory of cached.made.values()) device.release(memory);
  cached.made.clear();
}

function round(value) {
  return Number(value.toPrecision(3));
}

function print({ shape, format, rows, ms, gflops, shareOfPeak, weightGBs, shareOfBandwidth }) {
  const percent = (share) => `${Math.round(share * 100)} %`;
  console.log(
    `${shape} ${format.padEnd(4)} M=${String(rows).padEnd(3)} ${ms} ms  ` +
      `${gflops} GFLOP/s (${percent(shareOfPeak)} of peak)  ` +
      `weights ${weightGBs} GB/s (${percent(shareOfBandwidth)} of read speed)`,
  );
}
