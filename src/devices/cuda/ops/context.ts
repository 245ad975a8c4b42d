import type { Gpu } from "#devices/cuda/driver";
import { type Kernels, type Launcher, ROW_THREADS } from "#devices/cuda/kernels";
import type { AddressTables, LayerMoves, Scratch } from "#devices/cuda/memory";
import type { Products } from "#devices/cuda/products";

/** The context of an op besides its input. */
export interface CudaContext {
  readonly kernels: Kernels;
  /** Enqueues on the stream of the device's ops. */
  readonly launcher: Launcher;
  readonly gpu: Gpu;
  readonly scratch: Scratch;
  readonly tables: AddressTables;
  /** Pending moves of blocks; an op that touches a layer of a cache waits for the moves in it. */
  readonly moves: LayerMoves;
  /** [multiprocessors] i32, zeros between kernels: how blocks of one kernel find the last one. */
  readonly arrivals: bigint;
  /** cuBLASLt's GEMMs; null where the library is missing. */
  readonly products: Products | null;
}

/**
 * Grid of kernels that stride over `count` elements: enough blocks to fill the GPU some times over,
 * no more, so that the launch itself stays cheap for any count.
 */
export function elementGrid({ gpu }: CudaContext, count: number): readonly [number] {
  const blocksMax = gpu.multiprocessors * 16;
  return [Math.min(Math.ceil(count / ROW_THREADS), blocksMax)];
}
