/** How kernels on native/cuda/linear-stream.h are launched: the linears of a decode step. */
import type { CudaContext } from "./context.ts";
import type { CudaActivation, CudaMatrix } from "./handles.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape, ParamKind } from "./kernel-params.ts";
import { TENSOR_MAP, tensorMapFields } from "./tensor-map.ts";

/** `kBoxRows` and `kPanelColumns` of native/cuda/linear-stream.h. */
const boxRows = 16;
const panelColumns = 64;

/** `kStreamThreads` there, and the warp that copies. */
const threads = 256 + 32;

/** Weights of a stage, and one row of x in it; sums of one row of x by 8 warps, twice. */
const weightBytes = 16_384;
const xRowBytes = 512;
const sumRowBytes = 2 * 8 * 36 * 4;
const barrierBytes = 2 * 8;

/** `StreamShape` there: rows of x that a kernel is made for, and what its blocks take. */
const shapes = [shapeOf(8, 10), shapeOf(16, 7)] as const;

function shapeOf(rows: number, stages: number) {
  const stageBytes = weightBytes + rows * xRowBytes + barrierBytes;
  return { rows, sharedBytes: stages * stageBytes + rows * sumRowBytes };
}

/** Fields of `StreamMaps`, which must be a struct's first. */
export const STREAM_MAPS: readonly ParamKind[] = [...TENSOR_MAP, ...TENSOR_MAP];

/** Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. */
export const STREAM_ROWS_MAX = 16;

/** Copies that arrive at barriers, and kernels that start ahead of the one in front. */
const majorMin = 9;

/** One launch, but for its arguments. */
export interface StreamLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
  /** Fields of `STREAM_MAPS`. */
  readonly maps: readonly bigint[];
  /** Rows of x in a box: `xRows` of the kernels. */
  readonly xRows: number;
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
  readonly x: CudaActivation;
  readonly weight: CudaMatrix;
  /** Rows of the weight are two halves, whose rows of one number belong together. */
  readonly gated: boolean;
}

/** How the work is launched. */
export function streamLaunch(context: CudaContext, work: StreamWork): StreamLaunch {
  const { op, count, x, weight, gated } = work;
  const { rows, sharedBytes } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  // The list of kernels has one for each of both ops and each of these counts.
  const kernel = context.kernels[`${op}_${rows}` as KernelName];
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    prepared.add(kernel);
  }
  const units = Math.ceil(weight.rows / (gated ? 2 : 1) / boxRows);
  const blocks = count === 0 ? 0 : Math.min(units, context.gpu.multiprocessors);
  const xRows = 2 ** Math.ceil(Math.log2(Math.max(count, 1)));
  const maps = [...weightMap(context, weight, gated), ...xMap(context, x, xRows)];
  return { kernel, shape: { grid: [blocks], threads, sharedBytes }, maps, xRows };
}

/** By matrix: one is always read with a gate, or always without. */
const weightMaps = new WeakMap<CudaMatrix, readonly bigint[]>();

/** The matrix as [halves][rows][columns]. */
function weightMap(context: CudaContext, weight: CudaMatrix, gated: boolean): readonly bigint[] {
  const known = weightMaps.get(weight);
  if (known !== undefined) return known;
  const { address, columns, rowBytes } = weight;
  const halves = gated ? 2 : 1;
  const rows = weight.rows / halves;
  const halfBytes = rows * rowBytes;
  const map = tensorMapFields(context.launcher.driver, {
    address,
    sizes: [columns, rows, halves, 1, 1],
    strides: [rowBytes, halfBytes, 2 * halfBytes, 2 * halfBytes],
    box: [panelColumns, boxRows, 1, 1, 1],
  });
  weightMaps.set(weight, map);
  return map;
}

/** By activation and rows of a box. */
const xMaps = new WeakMap<CudaActivation, Map<number, readonly bigint[]>>();

/** All rows that the activation has room for: what those behind the last make is not stored. */
function xMap(context: CudaContext, x: CudaActivation, boxRows: number): readonly bigint[] {
  const maps = xMaps.get(x) ?? new Map<number, readonly bigint[]>();
  xMaps.set(x, maps);
  const known = maps.get(boxRows);
  if (known !== undefined) return known;
  const { address, columns, rows, rowBytes, bytes } = x;
  const map = tensorMapFields(context.launcher.driver, {
    address,
    sizes: [columns, rows, 1, 1, 1],
    strides: [rowBytes, bytes, bytes, bytes],
    box: [panelColumns, boxRows, 1, 1, 1],
  });
  maps.set(boxRows, map);
  return map;
}
