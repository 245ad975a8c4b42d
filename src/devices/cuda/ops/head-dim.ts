import { assert } from "#base";

/** `kHeadDimMax` of native/cuda: the largest head that a tile of queries holds. */
export const HEAD_DIM_MAX = 256;

/** The head's size, after a check against the kernels' limit. */
export function checkedHeadDim(headDim: number): number {
  assert(
    headDim > 0 && headDim <= HEAD_DIM_MAX,
    `Cannot attend on cuda: heads of at most ${HEAD_DIM_MAX} dimensions wanted, ${headDim} given`,
  );
  return headDim;
}
