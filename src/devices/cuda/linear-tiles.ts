/** How kernels on native/cuda/linear-tiles.h are launched: the linears of many sequences' steps. */
import type { CudaContext } from "./context.ts";
import type { CudaDriver } from "./driver.ts";
import type { CudaActivation, CudaMatrix } from "./handles.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape, ParamKind } from "./kernel-params.ts";
import { STREAM_ROWS_MAX } from "./linear-stream.ts";
import { MapsByRows } from "./maps-by-rows.ts";
import type { Scratch } from "./scratch.ts";
import { TENSOR_MAP, tensorMapFields } from "./tensor-map.ts";

/** Whether these kernels are used at all; without them cuBLASLt does their work. */
const isEnabled = true;

/** `kTileOutputs`, `kPanelColumns`, `kTilesThreads` and `kClusterBlocks` of native/cuda. */
const tileOutputs = 128;
const panelColumns = 64;
const threads = 384;
const clusterBlocks = 2;
/** `kRowHalves`: copies that bring the rows of x of a stage. */
const rowHalves = 2;
/** `kTurnRows`: of gate and of up, one behind the other. */
const turnRows = 8;

/** Rows of x of a tile, a kernel each. */
const tileRows = [32, 64, 96, 128, 192, 256] as const;
type TileRows = (typeof tileRows)[number];
const tileRowsMax = 256;

/** Rows of x for which these kernels are an alternative to cuBLASLt. */
const rowsMin = STREAM_ROWS_MAX + 1;
const rowsMax = 512;

/**
 * Most clusters that share a tile: what they have is added up by one block of each in the end.
 */
const clustersOfTileMax = 8;

/** How much larger the largest share may be, so that tiles are cut in fewer parts. */
const grainLossMax = 0.03;

/** All that a block of this capability may have. */
const sharedBytes = 227 * 1024;

/** `TileWork` of native/cuda/linear-tiles-work.h, which must be a struct's first field. */
export const TILE_WORK: readonly ParamKind[] = [
  ...TENSOR_MAP,
  ...TENSOR_MAP,
  ...(["pointer", "pointer", "i32", "i32", "i32", "i32"] as const),
  // A struct with tensor maps ends at a multiple of 64 bytes.
  ...(["i64", "i64", "i64", "i64"] as const),
];
const workPadding = [0n, 0n, 0n, 0n] as const;

/** What is multiplied. */
export interface TilesWork {
  readonly op: "linear_tiles" | "linear_tiles_activate";
  /** T. */
  readonly count: number;
  readonly x: CudaActivation;
  readonly weight: CudaMatrix;
}

/** One launch, but for its arguments. */
export interface TilesLaunch {
  readonly kernel: Kernel;
  readonly shape: LaunchShape;
  /** Values of `TILE_WORK`. */
  readonly work: readonly (bigint | number)[];
}

/** Whether the GPU is Hopper's, and there are these kernels. */
export function hasTiles({ gpu }: CudaContext): boolean {
  // Their instructions exist for this capability alone.
  return isEnabled && gpu.major === 9 && gpu.minor === 0 && sharedBytes <= gpu.sharedBytesMax;
}

/** Whether so many rows are theirs, where they are. */
export function canTile(count: number): boolean {
  return count >= rowsMin && count <= rowsMax;
}

/** Whether a tile can take rows of a gate and of up in turn. */
export function canTileGated(weight: CudaMatrix): boolean {
  return weight.rows % (2 * turnRows) === 0;
}

/** Scratch memory that is large enough for all shapes. */
const reserved = new WeakSet<Scratch>();

/**
 * Has scratch memory take its size for these kernels, of whatever shape, at the first product of
 * many rows: which of them a later step needs is not known then.
 */
export function reserveTiles({ gpu, scratch }: CudaContext): void {
  if (reserved.has(scratch)) return;
  scratch.take([partialBytes(gpu.multiprocessors, tileRowsMax)]);
  reserved.add(scratch);
}

/** Of each block the sums of a tile that it begins, and of one that it goes on with. */
function partialBytes(blocks: number, rows: TileRows): number {
  return blocks * 2 * tileOutputs * rows * 4;
}

/** Kernels that were told how much shared memory they get. */
const prepared = new WeakSet<Kernel>();

/** How the work is launched. */
export function tilesLaunch(context: CudaContext, work: TilesWork): TilesLaunch {
  const rows = tileRowsOf(work.count);
  // The list of kernels has one for each of both ops and each of these sizes.
  const kernel = context.kernels[`${work.op}_${rows}` as KernelName];
  if (!prepared.has(kernel)) {
    kernel.allowSharedBytes(sharedBytes);
    prepared.add(kernel);
  }
  const tiles = tilesOf(work, rows);
  const clusters = Math.min(
    Math.floor(context.gpu.multiprocessors / clusterBlocks),
    tiles.clusters * clustersOfTileMax,
  );
  const grid = [clusters * clusterBlocks] as const;
  const fields = workFields(context, work, { tiles, clusters });
  return { kernel, shape: { grid, threads, sharedBytes }, work: fields };
}

/** The smallest tile that takes all rows, or as many as the others of the fewest tiles do. */
function tileRowsOf(count: number): TileRows {
  const each = count / Math.ceil(count / tileRowsMax);
  return tileRows.find((rows) => rows >= each) ?? tileRowsMax;
}

/** A product's tiles. */
interface Tiles {
  /** Of x, in one of them. */
  readonly rows: TileRows;
  readonly outputs: number;
  readonly tokens: number;
  /** Those that the blocks of a cluster have side by side count as one. */
  readonly clusters: number;
  /** Of one tile. */
  readonly stages: number;
}

function tilesOf({ count, weight }: TilesWork, rows: TileRows): Tiles {
  const outputs = Math.ceil(weight.rows / tileOutputs);
  const tokens = Math.ceil(count / rows);
  const clusters = Math.ceil(outputs / clusterBlocks) * tokens;
  return { rows, outputs, tokens, clusters, stages: Math.ceil(weight.columns / panelColumns) };
}

/**
 * In how many grains a tile's stages are, between which it may be cut: as few as leave the largest
 * share hardly larger. Fewer cuts are fewer sums to add up.
 */
export function grainsOf(tiles: Pick<Tiles, "clusters" | "stages">, clusters: number): number {
  const total = tiles.clusters * tiles.stages;
  const largest = (grain: number) => Math.ceil(total / grain / clusters) * grain;
  for (let grains = 1; grains < tiles.stages; grains++) {
    if (tiles.stages % grains !== 0) continue;
    if (largest(tiles.stages / grains) <= largest(1) * (1 + grainLossMax)) return grains;
  }
  return tiles.stages;
}

/** Values of `TILE_WORK`. */
function workFields(
  context: CudaContext,
  { op, x, weight }: TilesWork,
  { tiles, clusters }: { readonly tiles: Tiles; readonly clusters: number },
) {
  const { driver } = context.launcher;
  const { rows } = tiles;
  const gated = op === "linear_tiles_activate";
  const weightMap = weightMaps.of(weight, gated ? 1 : 0, () => weightFields(driver, weight, gated));
  const xMap = xMaps.of(x, rows, () => xFields(driver, x, rows));
  const [partials] = context.scratch.take([partialBytes(clusters * clusterBlocks, rows)]);
  const sizes = [tiles.outputs, tiles.tokens, weight.columns, grainsOf(tiles, clusters)] as const;
  return [...weightMap, ...xMap, partials, context.arrivals, ...sizes, ...workPadding];
}

const weightMaps = new MapsByRows();
const xMaps = new MapsByRows();

/** Of [rows][columns]; with a gate of [F / 8][2][8][columns], so that a box takes both in turn. */
function weightFields(driver: CudaDriver, weight: CudaMatrix, gated: boolean): readonly bigint[] {
  const { address, columns, rows, rowBytes, bytes } = weight;
  const turns = rows / 2 / turnRows;
  return tensorMapFields(driver, {
    address,
    sizes: gated ? [columns, turnRows, 2, turns, 1] : [columns, rows, 1, 1, 1],
    strides: gated
      ? [rowBytes, bytes / 2, turnRows * rowBytes, bytes]
      : [rowBytes, bytes, bytes, bytes],
    box: gated
      ? [panelColumns, turnRows, 2, tileOutputs / 2 / turnRows, 1]
      : [panelColumns, tileOutputs, 1, 1, 1],
  });
}

/** Of all rows that there is room for: what those behind the last make is not stored. */
function xFields(driver: CudaDriver, x: CudaActivation, tile: TileRows): readonly bigint[] {
  const { address, columns, rows, rowBytes, bytes } = x;
  return tensorMapFields(driver, {
    address,
    sizes: [columns, rows, 1, 1, 1],
    strides: [rowBytes, bytes, bytes, bytes],
    box: [panelColumns, tile / rowHalves, 1, 1, 1],
  });
}
