import { assert } from "#base";

/** `kHeadDimMax` of native/cuda: what a tile of queries has room for. */
export const HEAD_DIM_MAX = 256;

/** The head's size, which kernels have room for. */
export function checkedHeadDim(headDim: number): number {
  assert(
    headDim > 0 && headDim <= HEAD_DIM_MAX,
    `Cannot attend on cuda: heads of at most ${HEAD_DIM_MAX} dimensions wanted, ${headDim} given`,
  );
  return headDim;
}
