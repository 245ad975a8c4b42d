/** How native/cuda/linear-i8.cu is launched: products of many rows of i8 on tensor cores. */
import type { CudaContext } from "./context.ts";
import type { Gpu } from "./gpu.ts";
import type { Kernel } from "./kernel-module.ts";
import type { KernelName } from "./kernel-names.ts";
import type { LaunchShape } from "./kernel-params.ts";

/** `kTileOutputs`, `kBandTiles` and `kStages` of native/cuda/linear-i8-ring.h. */
const tileOutputs = 64;
const bandTiles = 16;
const stages = 4;

/** Bytes of a row in a stage, and of what a thread sets aside. */
const recordBytes = 80;
const asideBytes = 64 * 4;

/** One of the kernels there: a tile of rows and 64 outputs for each block. */
export interface I8Tile {
  readonly kernel: KernelName;
  readonly rows: number;
  readonly threads: number;
  readonly sharedBytes: number;
  /** Blocks that share a multiprocessor, by their registers. */
  readonly neighbours: number;
}

/** By height; each has the same bits. */
export const I8_TILES: readonly I8Tile[] = [
  tileOf("linear_i8_many_32", 32, 2),
  tileOf("linear_i8_many_48", 48, 1),
  tileOf("linear_i8_many_64", 64, 1),
];

function tileOf(kernel: KernelName, rows: number, neighbours: number): I8Tile {
  const threads = rows * 8;
  const sharedBytes = stages * (rows + tileOutputs) * recordBytes + threads * asideBytes;
  return { kernel, rows, threads, sharedBytes, neighbours };
}

/** Sizes of a product: rows of x and of the weights. */
interface Product {
  readonly count: number;
  readonly outputs: number;
}

/** Which of the kernels is fastest for a product; null where none of them can run. */
export function i8TileFor(gpu: Gpu, product: Product): I8Tile | null {
  const possible = I8_TILES.filter(({ sharedBytes }) => sharedBytes <= gpu.sharedBytesMax);
  const costs = possible.map((tile) => busiestCopies(tile, product, gpu.multiprocessors));
  return possible[costs.indexOf(Math.min(...costs))] ?? null;
}

/** How a product is launched with one of the tiles. */
export function i8Launch({ kernels }: CudaContext, tile: I8Tile, { count, outputs }: Product) {
  const { rows, threads, sharedBytes } = tile;
  const kernel = kernels[tile.kernel];
  prepare(kernel, sharedBytes);
  const tiles = Math.ceil(count / rows);
  const bands = Math.ceil(tiles / bandTiles);
  const grid = [Math.min(tiles, bandTiles), Math.ceil(outputs / tileOutputs), bands] as const;
  const shape: LaunchShape = { grid, threads, sharedBytes };
  return { kernel, shape };
}

/**
 * Rows that the busiest multiprocessor brings to its stages, those of x and of the weights: blocks
 * wait for these copies more than they compute. A low tile brings weights more often, a high one
 * may keep few multiprocessors at work, or need one more round of all of them.
 */
function busiestCopies({ rows, neighbours }: I8Tile, product: Product, multiprocessors: number) {
  const { count, outputs } = product;
  const blocks = Math.ceil(count / rows) * Math.ceil(outputs / tileOutputs);
  const rounds = Math.floor(blocks / (multiprocessors * neighbours));
  const left = Math.ceil((blocks - rounds * multiprocessors * neighbours) / multiprocessors);
  return (rounds * neighbours + left) * (rows + tileOutputs);
}

/** Kernels that were allowed their shared memory. */
const prepared = new WeakSet<Kernel>();

function prepare(kernel: Kernel, sharedBytes: number): void {
  if (prepared.has(kernel)) return;
  kernel.allowSharedBytes(sharedBytes);
  prepared.add(kernel);
}
