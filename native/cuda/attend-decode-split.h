// Decode attention for few sequences, or for one with a long context: split-KV, as in
// flash-decoding. The KV tiles of each query tile (attend-decode-work.h) are split over blocks that
// process no other query tile.
//
//    grid (splits, query tiles of a sequence, sequences); KV tiles of 16 positions, round robin:
//    KV tile    0    1    2    3    4    5    6    7    8  ...
//    split 0    w0   w1                       w0   w1                -> merge -> partial result 0
//    split 1              w0   w1                       w0           -> merge -> partial result 1
//    split 2                        w0   w1                          -> merge -> partial result 2
//                                      the last split to finish merges these -> out
//
// Formula  as in attend-decode.h, with the same shapes, rounding and checks
// Work     Block (i, n, s) is split i of query tile n of sequence s. The KV tiles are assigned
//          round robin to the warps of all splits, so that a block derives its work from its index
//          and one length. Warps merge their results in shared memory, splits in scratch memory.
// Bound    latency: lengths, block table, keys and values, one or two merges. For a long context
//          memory
// Shared   dynamic: one PartialResult per warp; `partials` in scratch: one PartialResult per block
#pragma once

#include "attend-decode-params.h"
#include "dynamic-shared.h"
#include "stream-order.h"

namespace perigee {

template <typename T, int kDims, int kRowTiles, int kWarps>
struct SplitBlock {
  static constexpr int kRows = 8 * kRowTiles;
  using Partial = PartialResult<kDims, kRowTiles>;

  const AttendDecodeParams& p;
  const QueryTile& queryTile;
  int splits;  // number of splits that have KV tiles

  /// Index of the query tile among those of all sequences.
  __device__ static int index() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }

  __device__ Partial* partial(int split) const {
    return static_cast<Partial*>(p.partials) + index() * gridDim.x + split;
  }

  __device__ static Partial* slot(int warp) {
    return reinterpret_cast<Partial*>(dynamicShared()) + warp;
  }

  /// Number of warps of a split that have KV tiles; 0 or less means none.
  __device__ int warpsOf(int split) const {
    return min(kWarps, queryTile.seen.count - split * kWarps);
  }

  /// 1. Each warp attends to its KV tiles and stores the partial result in its slot.
  __device__ void attend() const {
    const int warps = static_cast<int>(gridDim.x) * kWarps;
    const int first = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / kWarp);
    if (first >= queryTile.seen.count) return;
    DecodeSums<kDims, kRowTiles> sums;
    sums.clear();
    WarpAttention<T, kDims, kRowTiles>(p.input, queryTile)
        .run(sums, {first, warps, (queryTile.seen.count - first + warps - 1) / warps});
    slot(static_cast<int>(threadIdx.x) / kWarp)->store(sums, queryTile.rows);
  }

  /// 2. Merges the slots into this block's partial result, or into the output if there is one
  /// split.
  __device__ void mergeWarps() const {
    const int count = warpsOf(static_cast<int>(blockIdx.x));
    const auto slotOf = [](int i) { return slot(i); };
    if (splits == 1) {
      mergeToOutput<kDims>(p, queryTile, count, slotOf);
      return;
    }
    Partial* const own = partial(static_cast<int>(blockIdx.x));
    mergePartials<kDims>(count, queryTile.rows, slotOf,
                         [&](const MergedQuad& merged, int row, int dim) {
                           own->storeQuad(merged, row, dim);
                         });
    __threadfence();
  }

  /// 3. The last split to finish merges all partial results into the output.
  __device__ void mergeSplits(int& isLast) const {
    __syncthreads();
    if (threadIdx.x == 0) isLast = arrivesLast(index(), splits);
    __syncthreads();
    if (isLast) mergeToOutput<kDims>(p, queryTile, splits, [&](int i) { return partial(i); });
  }
};

template <typename T, int kDims, int kRowTiles, int kWarps>
__device__ __forceinline__ void attendDecodeSplit(const AttendDecodeParams& p) {
  using Block = SplitBlock<T, kDims, kRowTiles, kWarps>;
  __shared__ QueryTile queryTile;
  __shared__ int isLast;
  // Depends only on lengths, which no kernel writes, so it may overlap the previous kernel.
  if (threadIdx.x == 0) {
    queryTile = queryTileOf(p.input, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y),
                            p.queryTilesOfSequence, Block::kRows);
  }
  __syncthreads();
  joinStream();

  const int splits = min(static_cast<int>(gridDim.x), (queryTile.seen.count + kWarps - 1) / kWarps);
  if (static_cast<int>(blockIdx.x) >= splits || queryTile.rows <= 0) return;
  const Block block{p, queryTile, splits};
  block.attend();
  __syncthreads();
  block.mergeWarps();
  if (splits > 1) block.mergeSplits(isLast);
}

}  // namespace perigee

/// Defines a kernel for head dims of up to kDims and query tiles of up to 8 kRowTiles rows. A block
/// has kWarps warps, the most that the registers of an SM allow.
#define PERIGEE_ATTEND_DECODE_SPLIT(name, T, kDims, kRowTiles, kWarps)    \
  PERIGEE_KERNEL __launch_bounds__(kWarps* perigee::kWarp, 1)             \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) { \
    perigee::attendDecodeSplit<perigee::T, kDims, kRowTiles, kWarps>(p);  \
  }
