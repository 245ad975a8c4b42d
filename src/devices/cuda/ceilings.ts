/**
 * Upper bounds of a GPU's speed, measured in the same run as the results they are compared with.
 * Random data throughout, since zeros are faster. For benchmarks: it allocates memory and waits for
 * the stream.
 */
import { EngineError } from "#base";
import {
  CudaEvent,
  type CudaSettings,
  gpuText,
  type OpenLibrary,
  openSystemLibrary,
} from "#devices/cuda/driver";
import { CublasLt, Matmul } from "#devices/cuda/products";
import { CudaSession } from "./cuda-session.ts";

/** Upper bounds of the device's speed. */
export interface GpuCeilings {
  /** Bytes read plus bytes written by a copy within the device, in 10^9 a second. */
  readonly copyGBs: number;
  /** bf16 GEMM with f32 accumulation, in 10^12 operations a second; null where unknown. */
  readonly bf16TFLOPs: number | null;
  /** Why it is unknown, in one line. */
  readonly bf16Unknown?: string;
}

/** Random numbers that are doubled on the device: uploading more from the host only costs time. */
const SEED_BYTES = 4 << 20;
/** Larger than any L2 cache; and a square GEMM that fills the GPU. */
const COPY_BYTES = 4 * 2 ** 30;
const PRODUCT_SIZE = 8192;
/** At most this share of the free memory is the source of the copy, and as much its target. */
const COPY_SHARE = 0.25;
/** GPUs that run models have more memory; an emulated GPU has less. */
const SMALL_GPU_BYTES = 5 * 2 ** 30;
const SMALL_COPY_BYTES = 2 ** 20;
const SMALL_PRODUCT_SIZE = 64;
const WORKSPACE_BYTES = 64 << 20;
const ALGORITHMS = 8;

/** Opens a GPU, measures, and closes it. Throws DEVICE_UNAVAILABLE and OUT_OF_MEMORY. */
export async function measureGpuCeilings(
  settings: CudaSettings = {},
): Promise<GpuCeilings & { readonly gpu: string }> {
  const session = await CudaSession.open({ settings });
  try {
    return { gpu: gpuText(session.gpu), ...measureCeilings(session, settings) };
  } finally {
    session.dispose();
  }
}

/** The same on an open session, nearly all of whose memory must be free. */
export function measureCeilings(
  session: CudaSession,
  settings: CudaSettings,
  openLibrary: OpenLibrary = openSystemLibrary,
): GpuCeilings {
  const { totalBytes, availableBytes } = session.memory.size();
  const small = totalBytes < SMALL_GPU_BYTES;
  const share = Math.floor((availableBytes * COPY_SHARE) / SMALL_COPY_BYTES) * SMALL_COPY_BYTES;
  return {
    copyGBs: copySpeed(session, small ? SMALL_COPY_BYTES : Math.min(COPY_BYTES, share)),
    ...productCeiling(session, small ? SMALL_PRODUCT_SIZE : PRODUCT_SIZE, {
      settings,
      openLibrary,
    }),
  };
}

/** Where to search for cuBLASLt. */
interface CublasSource {
  readonly settings: CudaSettings;
  readonly openLibrary?: OpenLibrary;
}

/** cuBLASLt's GEMM is the reference, so without the library there is no ceiling. */
export function productCeiling(
  session: CudaSession,
  size: number,
  { settings, openLibrary = openSystemLibrary }: CublasSource,
): Pick<GpuCeilings, "bf16TFLOPs" | "bf16Unknown"> {
  try {
    const cublas = CublasLt.open(settings, session.driver.version, openLibrary);
    return { bf16TFLOPs: productSpeed(session, cublas, size) };
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
    return { bf16TFLOPs: null, bf16Unknown: error.message };
  }
}

/** GB/s. */
export function copySpeed(session: CudaSession, bytes: number): number {
  const { driver, memory, stream } = session;
  const from = randomMemory(session, bytes, "the source of a copy");
  const to = memory.allocate(bytes, "the target of a copy");
  try {
    const copy = () => driver.run("cuMemcpyDtoDAsync", to, from, bytes, stream.handle);
    return (2 * bytes) / gpuMs(session, copy) / 1e6;
  } finally {
    for (const address of [from, to]) memory.release(address);
  }
}

/** TFLOP/s of a square GEMM, the best of cuBLASLt's first algorithms. */
function productSpeed(session: CudaSession, cublas: CublasLt, size: number): number {
  const { memory, stream } = session;
  const handle = cublas.create("cublasLtCreate");
  const shape = { rows: size, outputs: size, inputs: size, element: "bf16", out: "f32" } as const;
  const matmul = new Matmul(cublas, shape);
  const workspace = memory.allocate(WORKSPACE_BYTES, "workspace of a GEMM");
  const x = randomMemory(session, 2 * size * size, "rows of a GEMM");
  const weight = randomMemory(session, 2 * size * size, "a matrix");
  const out = memory.allocate(4 * size * size, "a product");
  try {
    const times = matmul.algorithms(handle, WORKSPACE_BYTES, ALGORITHMS).map((algorithm) => {
      const launch = { handle, algorithm, workspace, stream: stream.handle };
      return gpuMs(session, () => matmul.run({ out, x, weight }, launch), 7);
    });
    if (times.length === 0) throw noProduct(size);
    return (2 * size ** 3) / Math.min(...times) / 1e9;
  } finally {
    for (const address of [workspace, x, weight, out]) memory.release(address);
    matmul.destroy();
    cublas.run("cublasLtDestroy", handle);
  }
}

function noProduct(size: number): EngineError {
  return new EngineError(
    "DEVICE_UNAVAILABLE",
    `Cannot measure GEMMs: cuBLASLt has no algorithm for ${size} x ${size} of bf16 on this GPU`,
  );
}

/** GPU time of `enqueue` in milliseconds: the median of `runs`, after some warm-up runs. */
export function gpuMs(
  { driver, stream }: Pick<CudaSession, "driver" | "stream">,
  enqueue: () => void,
  runs = 15,
  warmups = 2,
): number {
  const start = new CudaEvent(driver, true);
  const end = new CudaEvent(driver, true);
  try {
    const times = Array.from({ length: runs + warmups }, () => {
      start.record(stream);
      enqueue();
      end.record(stream);
      end.wait();
      return end.elapsedMs(start);
    });
    const sorted = times.slice(warmups).sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  } finally {
    for (const event of [start, end]) event.destroy();
  }
}

/** Fills device memory with random numbers in [-1, 1). */
export function fillRandom(
  { driver, staging, stream }: CudaSession,
  address: bigint,
  bytes: number,
  element: "bf16" | "f32" = "bf16",
): void {
  const first = Math.min(bytes, SEED_BYTES);
  staging.upload(address, new Uint8Array(randomWords(element).buffer, 0, first));
  for (let done = first; done < bytes; done *= 2) {
    const count = Math.min(done, bytes - done);
    driver.run("cuMemcpyDtoDAsync", address + BigInt(done), address, count, stream.handle);
  }
}

function randomMemory(session: CudaSession, bytes: number, what: string): bigint {
  const address = session.memory.allocate(bytes, what);
  fillRandom(session, address, bytes);
  return address;
}

/** f32 numbers, or two bf16 in a word; the same ones in every run. */
function randomWords(element: "bf16" | "f32"): Uint32Array {
  let state = 0x9e3779b9;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 31 - 1;
  };
  const floats = Float32Array.from({ length: SEED_BYTES / 4 }, next);
  const words = new Uint32Array(floats.buffer);
  if (element === "f32") return words;
  // The upper half of an f32 is a bf16.
  return words.map((word, at) => (word >>> 16) | ((words[at + 1] ?? 0) & 0xffff_0000));
}
