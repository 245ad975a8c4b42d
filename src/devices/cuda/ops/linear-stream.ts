/** Launches of kernels on native/cuda/linear-stream.h: the linears of a decode step. */

import type { CudaDriver } from "#devices/cuda/driver";
import {
  type Kernel,
  type KernelName,
  type LaunchShape,
  type ParamKind,
  STREAM_ROWS_MAX,
  TENSOR_MAP,
  tensorMapFields,
} from "#devices/cuda/kernels";
import type { CudaActivation, CudaMatrix } from "#devices/cuda/memory";
import type { CudaContext } from "./context.ts";

/** `kBoxRows`, `kPanelColumns` and `kStageColumns` of native/cuda/linear-stream-work.h. */
const boxRows = 16;
const panelColumns = 64;
const stageColumns = 256;

/** `kStreamBlockThreads` there. */
const threads = 256 + 2 * 32;

/** Weights of a stage, and one row of x in it; sums of one row of x by 8 warps, twice. */
const weightBytes = 16_384;
const xRowBytes = 512;
const sumRowBytes = 2 * 8 * 36 * 4;
const barrierBytes = 2 * 8;
const rowsBarrierBytes = 8;

/** `kStayGapBytes` there. */
const stayGapBytes = 64;

/** `StreamShape` there: rows of x that a kernel is made for, and the resources of its blocks. */
const shapes = [shapeOf(8, 10), shapeOf(16, 7)] as const;

function shapeOf(rows: number, stages: number) {
  const stageBytes = weightBytes + rows * xRowBytes + barrierBytes;
  const sharedBytes = stages * stageBytes + rows * sumRowBytes + rowsBarrierBytes;
  return { rows, stages, sharedBytes };
}

/** `StreamMaps`, `StreamBoxes` and `StreamRows`, which must be a struct's first fields. */
export const STREAM_SOURCE: readonly ParamKind[] = [
  ...TENSOR_MAP,
  ...TENSOR_MAP,
  ...TENSOR_MAP,
  ...(["i32", "i32", "i32"] as const),
  ...(["pointer", "i32", "i32"] as const),
];

/**
 * Required: copies that arrive at barriers, and kernels that start before the previous one ends.
 */
const majorMin = 9;

/** One launch, without its arguments. */
export interface StreamLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
  /** Values of `STREAM_SOURCE`. */
  readonly source: readonly (bigint | number)[];
}

/** Whether `count` rows are few enough, and the GPU new enough. */
export function canStream({ gpu }: CudaContext, count: number): boolean {
  const fits = shapes.every(({ sharedBytes }) => gpu.sharedBytesMax >= sharedBytes);
  return count <= STREAM_ROWS_MAX && gpu.major >= majorMin && fits;
}

/** Operands of the GEMM. */
export interface StreamWork {
  readonly op: "linear_stream" | "linear_activate";
  /** T, at most `STREAM_ROWS_MAX`. */
  readonly count: number;
  readonly x: CudaActivation;
  readonly weight: CudaMatrix;
  /** Rows of the weight are two halves; row i of one belongs to row i of the other. */
  readonly gated: boolean;
}

/** The launch of the work. */
export function streamLaunch(context: CudaContext, work: StreamWork): StreamLaunch {
  const { op, count, weight, gated } = work;
  const { rows, sharedBytes } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  // The list of kernels has one for each of both ops and each of these counts.
  const kernel = context.kernels[`${op}_${rows}` as KernelName];
  kernel.allowSharedBytes(sharedBytes);
  const units = Math.ceil(weight.rows / (gated ? 2 : 1) / boxRows);
  const blocks = count === 0 ? 0 : Math.min(units, context.gpu.multiprocessors);
  const source = sourceOf(context.launcher.driver, work);
  return { kernel, shape: { grid: [blocks], threads, sharedBytes }, source };
}

/** Values of `STREAM_SOURCE`. */
function sourceOf(driver: CudaDriver, work: StreamWork) {
  const { count, x, weight, gated } = work;
  const wholePasses = gated || weight.rows % boxRows === 0;
  const whole = wholePasses && weight.columns % stageColumns === 0;
  // All rows that the kernel is made for: boxes of fewer rows arrived later.
  const xRows = count <= shapes[0].rows ? shapes[0].rows : shapes[1].rows;
  const weights = mapsOf(weight, `${gated}`, () => weightMaps(driver, weight, { gated, whole }));
  const rows = mapsOf(x, `${xRows} ${whole}`, () =>
    matrixMap(driver, x, { rows: [[x.rows, x.rowBytes]], box: [xRows], whole }),
  );
  const boxes = [wholePasses ? 1 : 0, whole ? 1 : 0, xRows] as const;
  return [...weights, ...rows, ...boxes, ...rowsOf(work, whole)];
}

/** `StreamRows`: rows of x stay in shared memory where they fit into the space of its stages. */
function rowsOf({ count, x }: StreamWork, whole: boolean) {
  const { rows, stages } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  const stays = whole && count * (x.rowBytes + stayGapBytes) <= stages * rows * xRowBytes;
  return [x.address, x.rowBytes, stays ? count : 0] as const;
}

const known = new WeakMap<CudaMatrix | CudaActivation, Map<string, readonly bigint[]>>();

/** The maps of a matrix or activation, made once. */
function mapsOf(of: CudaMatrix | CudaActivation, key: string, make: () => readonly bigint[]) {
  const maps = known.get(of) ?? new Map<string, readonly bigint[]>();
  known.set(of, maps);
  const found = maps.get(key) ?? make();
  maps.set(key, found);
  return found;
}

/** `passes` and `boxes` of `StreamMaps`. */
function weightMaps(
  driver: CudaDriver,
  weight: CudaMatrix,
  { gated, whole }: { readonly gated: boolean; readonly whole: boolean },
): readonly bigint[] {
  const { rows, rowBytes, bytes } = weight;
  const boxes = matrixMap(driver, weight, { rows: [[rows, rowBytes]], box: [boxRows], whole });
  if (!gated && rows % boxRows !== 0) return [...boxes, ...boxes];
  const halves = [
    [rows / 2, rowBytes],
    [2, bytes / 2],
  ] as const;
  const units = [
    [boxRows, rowBytes],
    [rows / boxRows, boxRows * rowBytes],
  ] as const;
  const passes = { rows: gated ? halves : units, box: [boxRows, 2], whole };
  return [...matrixMap(driver, weight, passes), ...boxes];
}

/** How a matrix is divided into boxes. */
interface MappedRows {
  /** Rows as one or two dimensions, each its size and its stride in bytes. */
  readonly rows: readonly (readonly [size: number, stride: number])[];
  /** Extents of a box along them. */
  readonly box: readonly number[];
  /** A box has all columns of a stage, panel by panel; else those of one panel. */
  readonly whole: boolean;
}

function matrixMap(
  driver: CudaDriver,
  { address, columns, bytes }: CudaMatrix | CudaActivation,
  { rows, box, whole }: MappedRows,
): readonly bigint[] {
  const panels = [columns / panelColumns, 2 * panelColumns] as const;
  const none = [1, bytes] as const;
  const outer = [...rows, ...(whole ? [panels] : []), none, none, none].slice(0, 4);
  const boxes = [...box, whole ? stageColumns / panelColumns : 1, 1, 1].slice(0, 4);
  return tensorMapFields(driver, {
    address,
    sizes: [whole ? panelColumns : columns, ...outer.map(([size]) => size)],
    strides: outer.map(([, stride]) => stride),
    box: [panelColumns, ...boxes],
  });
}
