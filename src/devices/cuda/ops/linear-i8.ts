/** Launches of native/cuda/linear-i8.cu: GEMMs of many rows of i8 on tensor cores. */

import type { Gpu } from "#devices/cuda/driver";
import type { KernelName, LaunchShape } from "#devices/cuda/kernels";
import type { CudaContext } from "./context.ts";

/** `kTileOutputs`, `kBandTiles` and `kStages` of native/cuda/linear-i8-ring.h. */
const tileOutputs = 64;
const bandTiles = 16;
const stages = 4;

/** Bytes of a row in a stage, and of the shared memory that each thread reserves. */
const recordBytes = 80;
const asideBytes = 64 * 4;

/** One of the kernels there: a tile of rows and 64 outputs for each block. */
export interface I8Tile {
  readonly kernel: KernelName;
  readonly rows: number;
  readonly threads: number;
  readonly sharedBytes: number;
  /** Resident blocks of a multiprocessor, by their registers. */
  readonly residentBlocks: number;
  /** Added time of each of them, relative to a block with a multiprocessor to itself. */
  readonly relativeTime: number;
}

/** The highest first, which is chosen where costs are equal; all give the same bits. */
export const I8_TILES: readonly I8Tile[] = [
  tileOf("linear_i8_many_48", { rows: 48, residentBlocks: 1, relativeTime: 1 }),
  tileOf("linear_i8_many_32", { rows: 32, residentBlocks: 2, relativeTime: 0.6 }),
];

function tileOf(
  kernel: KernelName,
  size: Pick<I8Tile, "rows" | "residentBlocks" | "relativeTime">,
): I8Tile {
  const threads = size.rows * 8;
  const sharedBytes = stages * (size.rows + tileOutputs) * recordBytes + threads * asideBytes;
  return { kernel, threads, sharedBytes, ...size };
}

/** Sizes of a GEMM: rows of x and of the weights. */
interface Product {
  readonly count: number;
  readonly outputs: number;
}

/** The fastest kernel for a GEMM; null where none of them can run. */
export function i8TileFor(gpu: Gpu, product: Product): I8Tile | null {
  const possible = I8_TILES.filter(({ sharedBytes }) => sharedBytes <= gpu.sharedBytesMax);
  const costs = possible.map((tile) => costOf(tile, product, gpu.multiprocessors));
  return possible[costs.indexOf(Math.min(...costs))] ?? null;
}

/** The launch of a GEMM with one of the tiles. */
export function i8Launch({ kernels }: CudaContext, tile: I8Tile, { count, outputs }: Product) {
  const { rows, threads, sharedBytes } = tile;
  const kernel = kernels[tile.kernel];
  kernel.allowSharedBytes(sharedBytes);
  const tiles = Math.ceil(count / rows);
  const bands = Math.ceil(tiles / bandTiles);
  const grid = [Math.min(tiles, bandTiles), Math.ceil(outputs / tileOutputs), bands] as const;
  const shape: LaunchShape = { grid, threads, sharedBytes };
  return { kernel, shape };
}

/**
 * Time of the busiest multiprocessor for all its blocks: 1 is one block by itself, of either
 * height. Where the two costs are equal, the two took the same time within a few percent. Measured
 * by bench/gpu/linears-i8.mjs on one H200, 17 to 8192 rows of four shapes.
 */
function costOf(tile: I8Tile, { count, outputs }: Product, multiprocessors: number): number {
  const { rows, residentBlocks, relativeTime } = tile;
  const blocks = Math.ceil(count / rows) * Math.ceil(outputs / tileOutputs);
  const rounds = Math.floor(blocks / (multiprocessors * residentBlocks));
  const left = Math.ceil((blocks - rounds * multiprocessors * residentBlocks) / multiprocessors);
  return Math.max(1, (rounds * residentBlocks + left) * relativeTime);
}
