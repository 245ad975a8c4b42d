// Attention of sequences with few query rows, from bf16, f16, i8 or fp8 keys and values to bf16.
//
// For many sequences; few have blocks of their own (attend-decode-strand.h).
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over what row t sees;
//          no token trees
// Shapes   query [T, H, D] f32; out [T, H, D] bf16; D a multiple of 8; cache: kv-pool.h, blocks of
//          a multiple of 16 positions
// Work     equal parts of all cached tiles for every warp of a grid as large as the chip takes
//          (attend-decode-work.h); from memory straight to registers (attend-decode-tile.h)
// Shares   two DecodeShares for each block
// Bound    memory: 2 D elements per cached token and kv head, read once
// Rounds   queries and weights to bf16, or to f16 where keys are: by 2^-9 or 2^-12 of each; sums in
//          f32
// Checked  bench/gpu/smoke.mjs, cases/attend-decode.mjs; test/devices/cuda/attend-decode.test.ts
#pragma once

#include "attend-decode-params.h"
#include "stream-order.h"

namespace perigee {

template <typename T, int kDims, int kRowTiles>
struct DecodeBlock {
  static constexpr int kRows = 8 * kRowTiles;
  using Share = DecodeShare<kDims, kRowTiles>;
  using Sums = DecodeSums<kDims, kRowTiles>;

  struct Shared {
    DecodeWork work;
    Share slots[kDecodeWarps];
    int slotStrands[kDecodeWarps];  // first tile of the strand; -1: none
    Strand strands[kDecodeWarps];   // that the warps are at
    Strand first;                   // of the block's tiles; the last warp ends at the last one
    int isLast[2];                  // this block brought the last share of its first, last strand
  };

  const AttendDecodeParams& p;
  Shared& shared;
  Tiles block;

  __device__ Share* part(int of, int which) const {
    return static_cast<Share*>(p.shares) + 2 * of + which;
  }

  /// The strand of a tile, as this warp's. All its lanes call it.
  __device__ void open(int tile) {
    Strand& strand = shared.strands[threadIdx.x / kWarp];
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      strand = shared.work.strandAt(p.input, tile, kRows);
      if (tile == block.begin) shared.first = strand;
    }
    __syncwarp();
  }

  /// A strand of which this warp has all that the block has: to the output, or to its part.
  __device__ void publish(const Strand& strand, const Sums& sums) {
    if (strand.tiles.begin >= block.begin && strand.tiles.end <= block.end) {
      storeRows(sums, strand.rows, p.input.cache.headDim,
                [&](int row) { return p.outRow(strand, row); });
      return;
    }
    const int which = strand.tiles.begin < block.begin ? 0 : 1;
    part(static_cast<int>(blockIdx.x), which)->store(sums, strand.rows);
    __threadfence();
  }

  /// 1. This warp's tiles, strand by strand, then what other warps have of the last one.
  __device__ void attend() {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const Tiles own = DecodeWork::ofWarp(block, warp);
    if (threadIdx.x % kWarp == 0) shared.slotStrands[warp] = -1;
    const Strand& strand = shared.strands[warp];
    Sums sums;
    bool kept = false;
    for (int tile = own.begin; tile < own.end; tile = min(own.end, strand.tiles.end)) {
      open(tile);
      const int end = min(own.end, strand.tiles.end);
      sums.clear();
      DecodeStretch<T, kDims, kRowTiles>(p.input, strand)
          .run(sums, {tile - strand.tiles.begin, 1, end - tile});
      if (strand.tiles.begin < own.begin && own.begin > block.begin) {
        shared.slots[warp].store(sums, strand.rows);
        if (threadIdx.x % kWarp == 0) shared.slotStrands[warp] = strand.tiles.begin;
      } else if (end == own.end) {
        kept = true;
      } else {
        publish(strand, sums);
      }
    }
    __syncthreads();
    if (!kept) return;
    for (int other = warp + 1; other < kDecodeWarps; ++other) {
      if (shared.slotStrands[other] != strand.tiles.begin) continue;
      shared.slots[other].addTo(sums, strand.rows);
    }
    publish(strand, sums);
  }

  /// The block's first strand (0), or its last (1).
  __device__ const Strand& end(int which) const {
    return which == 0 ? shared.first : shared.strands[kDecodeWarps - 1];
  }

  /// Whether other blocks have shares of the first strand, or of the last where it is another one.
  __device__ bool isShared(int which) const {
    const Tiles& tiles = end(which).tiles;
    if (which == 0) return tiles.begin < block.begin;
    return tiles.end > block.end && tiles.begin >= block.begin;
  }

  /// 2. Says that this block has brought its shares of strands that others share; where it is the
  /// last one, all shares become the output.
  __device__ void arrive() {
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (warp < 2 && threadIdx.x % kWarp == 0 && isShared(warp)) {
      const Tiles& tiles = end(warp).tiles;
      const int first = shared.work.blockOf(tiles.begin);
      const int shares = shared.work.blockOf(tiles.end - 1) - first + 1;
      shared.isLast[warp] = bringShare(first, shares);
    }
    __syncthreads();
    for (int which = 0; which < 2; ++which) {
      if (isShared(which) && shared.isLast[which]) merge(end(which));
    }
  }

  /// All blocks' shares of a strand, to the output.
  __device__ void merge(const Strand& strand) const {
    const int first = shared.work.blockOf(strand.tiles.begin);
    const int shares = shared.work.blockOf(strand.tiles.end - 1) - first + 1;
    mergeToOutput<kDims>(p, strand, shares,
                         [&](int i) { return part(first + i, i == 0 ? 1 : 0); });
  }

  /// Which tiles are whose depends on lengths alone, which no kernel writes: found out while the
  /// kernel in front still runs.
  __device__ void run() {
    shared.work.open(p.input, p.strandsOfSequence);
    joinStream();
    if (static_cast<int>(blockIdx.x) >= shared.work.blocks || shared.work.total == 0) return;
    block = shared.work.ofBlock(static_cast<int>(blockIdx.x));
    attend();
    arrive();
  }
};

template <typename T, int kDims, int kRowTiles>
__device__ __forceinline__ void attendDecode(const AttendDecodeParams& p) {
  using Block = DecodeBlock<T, kDims, kRowTiles>;
  __shared__ typename Block::Shared shared;
  Block{p, shared, {0, 0}}.run();
}

}  // namespace perigee

/// A kernel that takes heads of up to kDims dimensions, strands of up to 8 kRowTiles rows.
#define PERIGEE_ATTEND_DECODE(name, T, kDims, kRowTiles, kBlocks)             \
  PERIGEE_KERNEL __launch_bounds__(perigee::kDecodeThreads, kBlocks)          \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) {     \
    perigee::attendDecode<perigee::T, kDims, kRowTiles>(p);                   \
  }
