/** How kernels on native/cuda/linear-stream.h are launched: the linears of a decode step. */
import type { CudaContext } from "./context.ts";
import type { CudaMatrix } from "./handles.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape } from "./kernel-params.ts";
import { tensorMapFields } from "./tensor-map.ts";

/** `kBoxRows` and `kPanelColumns` of native/cuda/linear-stream.h. */
const boxRows = 16;
const panelColumns = 64;

/** `kStreamThreads` there, and the warp that copies. */
const threads = 256 + 32;

const stageBytes = 16_384;
/** Sums of one row of x by 8 warps, twice. */
const sumRowBytes = 2 * 8 * 36 * 4;

/** `StreamShape` there: rows of x that a kernel is made for, and what its blocks take. */
const shapes = [
  { rows: 8, sharedBytes: 13 * (stageBytes + 16) + 8 * sumRowBytes },
  { rows: 16, sharedBytes: 11 * (stageBytes + 16) + 16 * sumRowBytes },
] as const;

/** Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. */
export const STREAM_ROWS_MAX = 16;

/** Copies that arrive at barriers, and kernels that start ahead of the one in front. */
const majorMin = 9;

/** One launch, but for its arguments. */
export interface StreamLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
  /** Fields of `TENSOR_MAP`. */
  readonly map: readonly bigint[];
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
  readonly weight: CudaMatrix;
  /** Rows of the weight are two halves, whose rows of one number belong together. */
  readonly gated: boolean;
}

/** How the work is launched. */
export function streamLaunch(context: CudaContext, work: StreamWork): StreamLaunch {
  const { op, count, weight, gated } = work;
  const { rows, sharedBytes } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  const kernel = context.kernels[`${op}_${rows}` satisfies KernelName];
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    prepared.add(kernel);
  }
  const units = Math.ceil(weight.rows / (gated ? 2 : 1) / boxRows);
  const blocks = count === 0 ? 0 : Math.min(units, context.gpu.multiprocessors);
  return {
    kernel,
    shape: { grid: [blocks], threads, sharedBytes },
    map: mapOf(context, weight, gated),
  };
}

/** Tensor maps by matrix: a matrix is always read with a gate, or always without. */
const maps = new WeakMap<CudaMatrix, readonly bigint[]>();

/** The matrix as [halves][rows][columns]. */
function mapOf({ launcher }: CudaContext, weight: CudaMatrix, gated: boolean): readonly bigint[] {
  const known = maps.get(weight);
  if (known !== undefined) return known;
  const { address, columns, rowBytes } = weight;
  const halves = gated ? 2 : 1;
  const rows = weight.rows / halves;
  const halfBytes = rows * rowBytes;
  const map = tensorMapFields(launcher.driver, {
    address,
    sizes: [columns, rows, halves, 1, 1],
    strides: [rowBytes, halfBytes, 2 * halfBytes, 2 * halfBytes],
    box: [panelColumns, boxRows, 1, 1, 1],
  });
  maps.set(weight, map);
  return map;
}
