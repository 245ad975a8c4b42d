/** How kernels on native/cuda/linear-stream.h are launched: the linears of a decode step. */
import type { CudaContext } from "./context.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape } from "./kernel-params.ts";

/** `kStripOutputs` of native/cuda/linear-stream.h. */
export const STRIP_OUTPUTS = 16;

/** `kStreamThreads` there, and the warp that copies. */
const threads = 256 + 32;

/** `StreamShape` there: rows of x that a kernel is made for, and what its blocks take. */
const shapes = [
  { rows: 8, sharedBytes: 256 + 11 * 18_432 + 2 * 8 * 8 * 36 * 4 },
  { rows: 16, sharedBytes: 256 + 10 * 18_432 + 2 * 8 * 16 * 36 * 4 },
] as const;

/** Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. */
export const STREAM_ROWS_MAX = 16;

/** Copies that arrive at barriers, and kernels that start ahead of the one in front. */
const majorMin = 9;

/** One launch, but for its arguments. */
export interface StreamLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
}

/** Whether `count` rows are few enough, and the GPU new enough. */
export function canStream({ gpu }: CudaContext, count: number): boolean {
  const fits = shapes.every(({ sharedBytes }) => gpu.sharedBytesMax >= sharedBytes);
  return count <= STREAM_ROWS_MAX && gpu.major >= majorMin && fits;
}

/** Kernels that were told how much shared memory they get. */
const prepared = new WeakSet<Kernel>();

/** What is multiplied. */
export interface StreamWork {
  readonly op: "linear_stream" | "linear_activate";
  /** T, at most `STREAM_ROWS_MAX`. */
  readonly count: number;
  /** Strips of weight rows. */
  readonly strips: number;
}

/** How the work is launched. */
export function streamLaunch({ kernels, gpu }: CudaContext, work: StreamWork): StreamLaunch {
  const { op, count, strips } = work;
  const { rows, sharedBytes } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  const kernel = kernels[`${op}_${rows}` satisfies KernelName];
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    prepared.add(kernel);
  }
  const blocks = count === 0 ? 0 : Math.min(strips, gpu.multiprocessors);
  return { kernel, shape: { grid: [blocks], threads, sharedBytes } };
}
