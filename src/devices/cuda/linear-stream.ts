/** How kernels on native/cuda/linear-stream.h are launched: the linears of a decode step. */
import type { CudaContext } from "./context.ts";
import type { CudaDriver } from "./driver.ts";
import type { CudaActivation, CudaMatrix } from "./handles.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape, ParamKind } from "./kernel-params.ts";
import { TENSOR_MAP, tensorMapFields } from "./tensor-map.ts";

/** `kBoxRows`, `kPanelColumns` and `kStageColumns` of native/cuda/linear-stream.h. */
const boxRows = 16;
const panelColumns = 64;
const stageColumns = 256;

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

/** `StreamMaps` and `StreamBoxes`, which must be a struct's first fields. */
export const STREAM_SOURCE: readonly ParamKind[] = [
  ...TENSOR_MAP,
  ...TENSOR_MAP,
  ...TENSOR_MAP,
  ...(["i32", "i32", "i32"] as const),
];

/** Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. */
export const STREAM_ROWS_MAX = 16;

/** Copies that arrive at barriers, and kernels that start ahead of the one in front. */
const majorMin = 9;

/** One launch, but for its arguments. */
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
  const { op, count, weight, gated } = work;
  const { rows, sharedBytes } = count <= shapes[0].rows ? shapes[0] : shapes[1];
  // The list of kernels has one for each of both ops and each of these counts.
  const kernel = context.kernels[`${op}_${rows}` as KernelName];
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    prepared.add(kernel);
  }
  const units = Math.ceil(weight.rows / (gated ? 2 : 1) / boxRows);
  const blocks = count === 0 ? 0 : Math.min(units, context.gpu.multiprocessors);
  const source = sourceOf(context.launcher.driver, work);
  return { kernel, shape: { grid: [blocks], threads, sharedBytes }, source };
}

/** Values of `STREAM_SOURCE`. */
function sourceOf(driver: CudaDriver, { count, x, weight, gated }: StreamWork) {
  const { columns } = weight;
  const wholePasses = gated || weight.rows % boxRows === 0;
  const wholeStages = columns % stageColumns === 0;
  // Of all rows that the kernel is made for: boxes of fewer came slower.
  const xRows = count <= shapes[0].rows ? shapes[0].rows : shapes[1].rows;
  const weights = mapsOf(weight, `${gated}`, () => weightMaps(driver, weight, gated));
  const rows = mapsOf(x, `${xRows}`, () => xMap(driver, x, xRows));
  return [...weights, ...rows, wholePasses ? 1 : 0, wholeStages ? 1 : 0, xRows];
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
function weightMaps(driver: CudaDriver, weight: CudaMatrix, gated: boolean): readonly bigint[] {
  const { address, columns, rows, rowBytes, bytes } = weight;
  const boxes = tensorMapFields(driver, {
    address,
    sizes: [columns, rows, 1, 1, 1],
    strides: [rowBytes, bytes, bytes, bytes],
    box: [panelColumns, boxRows, 1, 1, 1],
  });
  if (!gated && rows % boxRows !== 0) return [...boxes, ...boxes];
  const sizes = gated ? [columns, rows / 2, 2, 1, 1] : [columns, boxRows, rows / boxRows, 1, 1];
  const stride = gated ? bytes / 2 : boxRows * rowBytes;
  const passes = tensorMapFields(driver, {
    address,
    sizes,
    strides: [rowBytes, stride, bytes, bytes],
    box: [panelColumns, boxRows, 2, 1, 1],
  });
  return [...passes, ...boxes];
}

/** Of all rows that there is room for: what those behind the last make is not stored. */
function xMap(driver: CudaDriver, x: CudaActivation, xRows: number): readonly bigint[] {
  const { address, columns, rows, rowBytes, bytes } = x;
  const panelBytes = 2 * panelColumns;
  const panels = columns / panelColumns;
  const whole = columns % stageColumns === 0;
  return tensorMapFields(driver, {
    address,
    sizes: whole ? [panelColumns, rows, panels, 1, 1] : [columns, rows, 1, 1, 1],
    strides: [rowBytes, whole ? panelBytes : bytes, bytes, bytes],
    box: [panelColumns, xRows, whole ? stageColumns / panelColumns : 1, 1, 1],
  });
}
