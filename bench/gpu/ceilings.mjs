/**
 * What the GPU allows: the speeds that other measurements of the same run are held against. Random
 * data throughout, since zeros are faster.
 */
import { CublasLt } from "../../dist/devices/cuda/cublaslt.js";
import { CudaEvent } from "../../dist/devices/cuda/event.js";
import { Matmul } from "../../dist/devices/cuda/matmul.js";
import { median } from "../machine.mjs";

const seedBytes = 4 << 20;

/** Milliseconds of `enqueue` on the GPU: median of `runs`, after some that warm up. */
export function gpuMs({ driver, stream }, enqueue, runs = 15, warmups = 2) {
  const [start, end] = [new CudaEvent(driver, true), new CudaEvent(driver, true)];
  try {
    const times = Array.from({ length: runs + warmups }, () => {
      start.record(stream);
      enqueue();
      end.record(stream);
      end.wait();
      return end.elapsedMs(start);
    });
    return median(times.slice(warmups));
  } finally {
    for (const event of [start, end]) event.destroy();
  }
}

/** Random numbers in [-1, 1) as f32 bits, or two bf16 in a word: some megabytes. */
export function randomWords(element) {
  const words = new Uint32Array(seedBytes / 4);
  const floats = Float32Array.from(words, () => Math.random() * 2 - 1);
  words.set(new Uint32Array(floats.buffer));
  if (element === "f32") return words;
  // The upper half of an f32 is a bf16.
  return words.map((word, i) => (word >>> 16) | (words[(i + 1) % words.length] & 0xffff_0000));
}

/** Fills device memory with random numbers: some megabytes from the host, then doubled there. */
export function fillRandom({ driver, staging, stream }, address, bytes, element = "bf16") {
  const first = Math.min(bytes, seedBytes);
  staging.upload(address, new Uint8Array(randomWords(element).buffer, 0, first));
  for (let done = first; done < bytes; done *= 2) {
    const count = Math.min(done, bytes - done);
    driver.run("cuMemcpyDtoDAsync", address + BigInt(done), address, count, stream.handle);
  }
}

function randomMemory(session, bytes, what) {
  const address = session.memory.allocate(bytes, what);
  fillRandom(session, address, bytes);
  return address;
}

/** GB/s of a copy within the device: bytes read plus bytes written. */
export function copyGBs(session, bytes = 4 * 2 ** 30) {
  const { driver, memory, stream } = session;
  const [from, to] = [randomMemory(session, bytes, "a source"), memory.allocate(bytes, "a target")];
  const copy = () => driver.run("cuMemcpyDtoDAsync", to, from, bytes, stream.handle);
  const ms = gpuMs(session, copy);
  for (const address of [from, to]) memory.release(address);
  return (2 * bytes) / ms / 1e6;
}

/** TFLOP/s of a square product of bf16 with sums in f32, the best of cuBLASLt's first ways. */
export function productTFLOPs(session, settings, size = 8192) {
  const { driver, memory, stream } = session;
  const cublas = CublasLt.open(settings, driver.version);
  const handle = cublas.create("cublasLtCreate");
  const shape = { rows: size, outputs: size, inputs: size, element: "bf16", out: "f32" };
  const matmul = new Matmul(cublas, shape);
  const workspaceBytes = 64 << 20;
  const workspace = memory.allocate(workspaceBytes, "a workspace");
  const [x, weight] = [0, 1].map(() => randomMemory(session, 2 * size * size, "a matrix"));
  const out = memory.allocate(4 * size * size, "a product");
  const times = matmul.algorithms(handle, workspaceBytes, 8).map((algorithm) => {
    const launch = { handle, algorithm, workspace, stream: stream.handle };
    return gpuMs(session, () => matmul.run({ out, x, weight }, launch), 7);
  });
  for (const address of [x, weight, out, workspace]) memory.release(address);
  matmul.destroy();
  cublas.run("cublasLtDestroy", handle);
  return (2 * size ** 3) / Math.min(...times) / 1e9;
}

/** Both, of sizes at which they are as high as they get; tiny ones on an emulated GPU. */
export function measureCeilings(session, settings) {
  const tiny = session.memory.size().totalBytes < 2 ** 33;
  return {
    copyGBs: copyGBs(session, tiny ? 2 ** 20 : undefined),
    bf16TFLOPs: productTFLOPs(session, settings, tiny ? 64 : undefined),
  };
}
