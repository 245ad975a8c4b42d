/** How kernels on native/cuda/linear-stream.h are launched: the linears of a decode step. */
import type { CudaContext } from "./context.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape, ParamKind } from "./kernel-params.ts";

/** `kTileOutputs`, `kUnitColumns`, `kStreamThreads` of native/cuda/linear-stream.h. */
export const STREAM_SHAPE = { outputs: 128, columns: 64, threads: 256 } as const;

/** `kStreamWarps * kRingBytes` there: weights on their way. */
const ringBytes = 96 << 10;
/** `kSumStride` floats there: sums of one row of x. */
const sumRowBytes = 132 * 4;
/** Every block leaves parts of two tiles at most. */
const partialsPerBlock = 2;

/** Rows of x that kernels are made for. */
const rowCounts = [8, 16, 32] as const;

/**
 * Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. A kernel
 * for more would need more registers than let two blocks run side by side.
 */
export const STREAM_ROWS_MAX = 32;

/** Kernels start ahead of the one in front, and need the shared memory, from Hopper on. */
const majorMin = 9;

/** Fields of `StreamRoom`. */
export const STREAM_ROOM: readonly ParamKind[] = ["pointer", "pointer"];

/** One launch, but for the fields that an op fills in. */
export interface StreamLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
  /** Fields of `StreamRoom`. */
  readonly room: readonly [partials: bigint, arrivals: bigint];
}

/** Whether `count` rows are few enough, and the GPU new enough. */
export function canStream({ gpu }: CudaContext, count: number): boolean {
  const fits = gpu.sharedBytesMax >= sharedBytesOf(STREAM_ROWS_MAX);
  return count <= STREAM_ROWS_MAX && gpu.major >= majorMin && fits;
}

/** Kernels that were told how much shared memory they get. */
const prepared = new WeakSet<Kernel>();

/** What is multiplied. */
export interface StreamWork {
  readonly op: "linear_stream" | "linear_activate";
  /** T, at most `STREAM_ROWS_MAX`. */
  readonly count: number;
  /** Tiles of weight rows. */
  readonly tiles: number;
  /** K. */
  readonly columns: number;
}

/** How the work is launched. Takes scratch. */
export function streamLaunch(context: CudaContext, work: StreamWork): StreamLaunch {
  const { op, count, tiles, columns } = work;
  const rows = rowCounts.find((each) => count <= each) ?? STREAM_ROWS_MAX;
  // The list of kernels has one for each of both ops and each of these counts.
  const kernel = context.kernels[`${op}_${rows}` satisfies KernelName];
  const sharedBytes = sharedBytesOf(rows);
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    kernel.preferShared();
    prepared.add(kernel);
  }
  const units = tiles * Math.ceil(columns / STREAM_SHAPE.columns);
  const blocks = count === 0 ? 0 : Math.min(units, context.gpu.multiprocessors);
  const partialBytes = blocks * partialsPerBlock * rows * STREAM_SHAPE.outputs * 4;
  const [partials] = context.scratch.take([partialBytes]);
  return {
    kernel,
    shape: { grid: [blocks], threads: STREAM_SHAPE.threads, sharedBytes },
    room: [partials, context.arrivals],
  };
}

function sharedBytesOf(rows: number): number {
  return ringBytes + rows * sumRowBytes;
}
