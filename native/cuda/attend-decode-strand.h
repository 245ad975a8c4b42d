// Decode attention of few sequences, or of one with a long context: a strand has blocks of its own.
//
// Formula  as attend-decode.h, whose shapes, rounding and checks it shares
// Work     block (p, n, s): part p of strand n of sequence s. The warps of all parts take its tiles
//          in turn, so that a block knows its work from its place and one length; sums meet in
//          shared memory, those of several parts in scratch memory
// Bound    latency: lengths, table, keys and values, one merge or two; for a long context memory
// Shared   dynamic: a DecodeShare for each warp; shares: one for each block
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
  int parts;  // that have tiles

  /// Number of the strand among those of all sequences.
  __device__ static int place() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }

  __device__ Share* part(int of) const {
    return static_cast<Share*>(p.shares) + place() * gridDim.x + of;
  }

  __device__ static Share* slot(int warp) {
    return reinterpret_cast<Share*>(dynamicShared()) + warp;
  }

  /// Warps of part `of` that have tiles; 0 or less: none.
  __device__ int warpsOf(int of) const { return min(kWarps, strand.seen.count - of * kWarps); }

  /// 1. Every warp's tiles, to its slot.
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

  /// 2. The slots become this block's share, or the output.
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

  /// 3. The last part makes the output of all parts' shares.
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
  // Of lengths alone, which no kernel writes: while the kernel in front still runs.
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

/// A kernel that takes heads of up to kDims dimensions, strands of up to 8 kRowTiles rows, by
/// blocks of kWarps warps: as many as a multiprocessor has registers for.
#define PERIGEE_ATTEND_STRAND(name, T, kDims, kRowTiles, kWarps)          \
  PERIGEE_KERNEL __launch_bounds__(kWarps* perigee::kWarp, 1)             \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) { \
    perigee::attendStrand<perigee::T, kDims, kRowTiles, kWarps>(p);       \
  }
