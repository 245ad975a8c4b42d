import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import type { CudaKvPool } from "#devices/cuda/memory";
import { at } from "#tensor";
import { checkPairs } from "../../block-pairs.ts";
import type { CudaContext } from "./context.ts";

/** `kPairsMax` of native/cuda/copy-blocks.cu. */
const pairsMax = 128;

/** Bytes that a thread copies at once. */
const bytesPerThread = 16;

const params = new KernelParams(["pointer", "i64"], 2 * pairsMax);

/**
 * Cuts a list [n, 2] of moves into parts whose moves can be done in any order: no move of a part
 * reads or writes a block that another one writes, and none is longer than `countMax`. Yields
 * [start, end) in pairs.
 */
export function* independentMoves(
  pairs: Int32Array,
  countMax: number,
): Generator<{ readonly start: number; readonly end: number }> {
  const read = new Set<number>();
  const written = new Set<number>();
  let start = 0;
  for (let i = 0; i < pairs.length / 2; i++) {
    const [from, to] = [at(pairs, 2 * i), at(pairs, 2 * i + 1)];
    const clash = written.has(from) || written.has(to) || read.has(to);
    if (clash || i - start === countMax) {
      yield { start, end: i };
      start = i;
      read.clear();
      written.clear();
    }
    read.add(from);
    written.add(to);
  }
  if (start < pairs.length / 2) yield { start, end: pairs.length / 2 };
}

/** Calls the kernel with `CopyBlocksParams` (native/cuda/copy-blocks.cu), some pairs at a time. */
export function copyBlocks(context: CudaContext, cache: CudaKvPool, pairs: Int32Array): void {
  const { kernels, launcher, gpu, moves } = context;
  checkPairs(pairs, { from: cache.blocks, to: cache.blocks });
  moves.settle(cache);
  const wanted = Math.ceil(cache.bytesPerBlock / bytesPerThread / ROW_THREADS);
  for (const { start, end } of independentMoves(pairs, pairsMax)) {
    params.fill(cache.address, cache.bytesPerBlock);
    params.tail.set(pairs.subarray(2 * start, 2 * end));
    const grid = [Math.min(wanted, gpu.multiprocessors), end - start] as const;
    launcher.launch(kernels.copy_blocks, { grid, threads: ROW_THREADS }, params);
  }
}
