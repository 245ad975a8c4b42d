// Decode attention for few sequences, or for one with a long context (flash-decoding). Each strand
// (one kv head of one sequence with up to kRows query rows) has its own blocks.
//
//    grid (parts, strands of a sequence, sequences); tiles of 16 positions, round robin:
//    tile      0    1    2    3    4    5    6    7    8  ...
//    part 0    w0   w1                       w0   w1                -> merge -> partial result 0
//    part 1              w0   w1                       w0           -> merge -> partial result 1
//    part 2                        w0   w1                          -> merge -> partial result 2
//                                      the last part to finish merges these -> out
//
// Formula  as in attend-decode.h, with the same shapes, rounding and checks
// Work     Block (p, n, s) is part p of strand n of sequence s. The strand's tiles are assigned
//          round robin to the warps of all parts, so that a block derives its work from its index
//          and one length. Warps merge their results in shared memory, parts in scratch memory.
// Bound    latency: lengths, block table, keys and values, one or two merges. For a long context
//          memory
// Shared   dynamic: one DecodeShare per warp; `shares` in scratch: one DecodeShare per block
#pragma once

#include "attend-decode-params.h"
#include "dynamic-shared.h"
#include "stream-order.h"

namespace perigee {

template <typename T, int kDims, int kRowTiles, int kWarps>
struct StrandBlock {
  static constexpr int kRows = 8 * kRowTiles;
  using Share = DecodeShare<kDims, kRowTiles>;

  const AttendDecodeParams& p;
  const Strand& strand;
  int parts;  // number of parts that have tiles

  /// Index of the strand among those of all sequences.
  __device__ static int place() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }

  __device__ Share* part(int of) const {
    return static_cast<Share*>(p.shares) + place() * gridDim.x + of;
  }

  __device__ static Share* slot(int warp) {
    return reinterpret_cast<Share*>(dynamicShared()) + warp;
  }

  /// Number of warps of part `of` that have tiles; 0 or less means none.
  __device__ int warpsOf(int of) const { return min(kWarps, strand.seen.count - of * kWarps); }

  /// 1. Each warp attends to its tiles and stores the partial result in its slot.
  __device__ void attend() const {
    const int warps = static_cast<int>(gridDim.x) * kWarps;
    const int first = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / kWarp);
    if (first >= strand.seen.count) return;
    DecodeSums<kDims, kRowTiles> sums;
    sums.clear();
    DecodeStretch<T, kDims, kRowTiles>(p.input, strand)
        .run(sums, {first, warps, (strand.seen.count - first + warps - 1) / warps});
    slot(static_cast<int>(threadIdx.x) / kWarp)->store(sums, strand.rows);
  }

  /// 2. Merges the slots into this block's partial result, or into the output if there is one part.
  __device__ void mergeWarps() const {
    const int count = warpsOf(static_cast<int>(blockIdx.x));
    const auto slotOf = [](int i) { return slot(i); };
    if (parts == 1) {
      mergeToOutput<kDims>(p, strand, count, slotOf);
      return;
    }
    Share* const own = part(static_cast<int>(blockIdx.x));
    mergeShares<kDims>(count, strand.rows, slotOf,
                       [&](const MergedQuad& merged, int row, int dim) {
                         own->storeQuad(merged, row, dim);
                       });
    __threadfence();
  }

  /// 3. The last part to finish merges all partial results into the output.
  __device__ void mergeParts(int& isLast) const {
    __syncthreads();
    if (threadIdx.x == 0) isLast = bringShare(place(), parts);
    __syncthreads();
    if (isLast) mergeToOutput<kDims>(p, strand, parts, [&](int i) { return part(i); });
  }
};

template <typename T, int kDims, int kRowTiles, int kWarps>
__device__ __forceinline__ void attendStrand(const AttendDecodeParams& p) {
  using Block = StrandBlock<T, kDims, kRowTiles, kWarps>;
  __shared__ Strand strand;
  __shared__ int isLast;
  // Depends only on lengths, which no kernel writes, so it may overlap the previous kernel.
  if (threadIdx.x == 0) {
    strand = strandOf(p.input, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y),
                      p.strandsOfSequence, Block::kRows);
  }
  __syncthreads();
  joinStream();

  const int parts = min(static_cast<int>(gridDim.x), (strand.seen.count + kWarps - 1) / kWarps);
  if (static_cast<int>(blockIdx.x) >= parts || strand.rows <= 0) return;
  const Block block{p, strand, parts};
  block.attend();
  __syncthreads();
  block.mergeWarps();
  if (parts > 1) block.mergeParts(isLast);
}

}  // namespace perigee

/// Defines a kernel for head dims of up to kDims and strands of up to 8 kRowTiles rows. A block has
/// kWarps warps, the most that the registers of an SM allow.
#define PERIGEE_ATTEND_STRAND(name, T, kDims, kRowTiles, kWarps)          \
  PERIGEE_KERNEL __launch_bounds__(kWarps* perigee::kWarp, 1)             \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) { \
    perigee::attendStrand<perigee::T, kDims, kRowTiles, kWarps>(p);       \
  }
