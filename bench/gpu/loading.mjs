// node bench/gpu/loading.mjs [--gigabytes 8] [--folder DIR]
//
// How fast a safetensors file goes to the GPU: bf16 matrices as they are, bf16 to i8, and weights
// that are made on the device. The file lies in the system's cache: it was just written. Prints
// JSON. Needs a GPU and the build; `reading.mjs` measures the host's part alone.
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openWeights } from "../../dist/checkpoint/weight-files.js";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { randomSource } from "../../dist/devices/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";

const { values: flags } = readFlags({
  options: {
    gigabytes: { type: "number", default: 8 },
    folder: { type: "string", default: tmpdir() },
  },
});
/** A feed-forward matrix of an 8B model: 117 MB. */
const shape = [14_336, 4096];
const matrixBytes = shape[0] * shape[1] * 2;
const count = Math.max(1, Math.round((flags.gigabytes * 1e9) / matrixBytes));

/** Writes matrices of nothing in particular. */
function writeFile(path) {
  const header = {};
  for (let i = 0; i < count; i++) {
    const data_offsets = [i * matrixBytes, (i + 1) * matrixBytes];
    header[`m${i}.weight`] = { dtype: "BF16", shape, data_offsets };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const matrix = Buffer.alloc(matrixBytes);
  for (let i = 0; i < matrixBytes / 2; i++) matrix.writeUInt16LE(0x3c00 + (i % 1021), 2 * i);
  const descriptor = openSync(path, "w");
  for (const part of [length, text]) writeSync(descriptor, part);
  for (let i = 0; i < count; i++) {
    for (let done = 0; done < matrixBytes; ) done += writeSync(descriptor, matrix, done);
  }
  closeSync(descriptor);
}

/** GB/s of the sources' bytes. Matrices are let go behind the measurement: that stops the GPU. */
async function measure(device, sources, format) {
  const begun = performance.now();
  const matrices = sources.map((source) => {
    const matrix = device.pack([source], { format });
    source.discard();
    return matrix;
  });
  await device.synchronize();
  const seconds = (performance.now() - begun) / 1000;
  for (const matrix of matrices) device.release(matrix);
  return Number(((sources.length * matrixBytes) / 1e9 / seconds).toFixed(2));
}

const device = await openOrGiveUp(() => CudaDevice.open({ settings: cudaFromEnvironment() }));
const folder = mkdtempSync(join(flags.folder, "perigee-loading-"));
try {
  const path = join(folder, "model.safetensors");
  writeFile(path);
  const { tensors, files } = openWeights([path]);
  const stored = [...tensors.values()];
  const mapped = stored.map(({ file: _, ...source }) => source);
  const range = Math.fround(0.02);
  const random = Array.from({ length: count }, (_, low) =>
    randomSource(`m${low}`, shape, { seed: { low, high: 0 }, range }),
  );
  const result = { device: device.description, gigabytes: (count * matrixBytes) / 1e9 };
  await measure(device, stored.slice(0, 2), "bf16");
  result.threadsGBps = await measure(device, stored, "bf16");
  result.threadsAgainGBps = await measure(device, stored, "bf16");
  result.mappedGBps = await measure(device, mapped, "bf16");
  result.int8GBps = await measure(device, stored, "i8");
  result.randomGBps = await measure(device, random, "bf16");
  console.log(JSON.stringify(result, null, 2));
  for (const file of files) file.close();
} finally {
  device.dispose();
  rmSync(folder, { recursive: true });
}
