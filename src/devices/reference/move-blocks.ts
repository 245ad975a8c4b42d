import { forEachPair } from "../block-pairs.ts";

/** Memory cut into blocks of one size: a cache, or host blocks. */
export interface BlockRows {
  readonly blocks: number;
  block(index: number): Float32Array;
}

/** to[pair[1]] = from[pair[0]] for each pair of [n, 2], in order. Sides may be the same. */
export function moveBlocks(from: BlockRows, to: BlockRows, pairs: Int32Array): void {
  forEachPair(pairs, { from: from.blocks, to: to.blocks }, (source, target) => {
    to.block(target).set(from.block(source));
  });
}
