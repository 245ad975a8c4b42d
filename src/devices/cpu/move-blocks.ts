import { assert } from "#base";
import { checkPairs } from "../block-pairs.ts";
import type { CpuLibrary } from "./library.ts";
import { Params } from "./params.ts";

/** Memory cut into blocks of one size: a cache, or host blocks. */
export interface BlockMemory {
  readonly blocks: number;
  readonly bytesPerBlock: number;
  readonly address: bigint;
}

const params = new Params(5);

/** Calls the kernel with `MoveBlocksParams` (native/cpu/move-blocks.cpp) and the pairs. */
export function moveBlocks(
  { library, pool }: { readonly library: CpuLibrary; readonly pool: bigint },
  sides: { readonly from: BlockMemory; readonly to: BlockMemory },
  pairs: Int32Array,
): void {
  const { from, to } = sides;
  assert(
    from.bytesPerBlock === to.bytesPerBlock,
    `Cannot move blocks of ${from.bytesPerBlock} bytes to blocks of ${to.bytesPerBlock}`,
  );
  checkPairs(pairs, { from: from.blocks, to: to.blocks });
  const count = pairs.length / 2;
  library.moveBlocks(params.fill(pool, to.address, from.address, from.bytesPerBlock, count), pairs);
}
