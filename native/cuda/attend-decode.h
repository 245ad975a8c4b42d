// Decode attention: sequences with few query rows; keys and values in bf16, f16, i8 or fp8.
//
// For batches of many sequences. Few sequences, or one with a long context, use
// attend-decode-strand.h.
//
//    tile of 16 positions (registers)             per warp, for each tile of its part of the list:
//      keys    [16, D]  --mma--> scores [16, rows] --exp2, online max--> weights (registers)
//      values  [16, D]  --mma--> sums [D, rows] += values^T . weights
//    then: warps of a strand merge in shared memory, blocks in scratch memory; last block -> out
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over the positions
//          visible to row t; no token trees
// Shapes   query [T, H, D] f32; out [T, H, D] bf16; D a multiple of 8; cache: kv-pool.h, block size
//          a multiple of 16 positions
// Work     Every warp gets an equal part of all cached tiles; the grid fills the GPU
//          (attend-decode-work.h). Tiles are loaded from memory straight to registers
//          (attend-decode-tile.h).
// Scratch  `shares`: two DecodeShares per block
// Bound    memory: 2 D elements per cached token and kv head, read once
// Rounds   queries and weights to bf16, or to f16 where keys are f16: relative errors of 2^-9 or
//          2^-12. Sums are in f32
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
    int slotStrands[kDecodeWarps];  // first tile of the slot's strand; -1: slot is empty
    Strand strands[kDecodeWarps];   // strand that each warp is processing
    Strand first;                   // the block's first strand; its last is the last warp's
    int isLast[2];                  // for first and last strand: this block finished last
  };

  const AttendDecodeParams& p;
  Shared& shared;
  Tiles block;

  __device__ Share* part(int of, int which) const {
    return static_cast<Share*>(p.shares) + 2 * of + which;
  }

  /// Looks up the strand of a tile for this warp. All its lanes call it.
  __device__ void open(int tile) {
    Strand& strand = shared.strands[threadIdx.x / kWarp];
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      strand = shared.work.strandAt(p.input, tile, kRows);
      if (tile == block.begin) shared.first = strand;
    }
    __syncwarp();
  }

  /// Stores the block's result of a strand, which this warp holds: to the output if the block has
  /// the whole strand, else as a partial result.
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

  /// 1. Attends to this warp's tiles, strand by strand. Then adds what later warps hold of its last
  /// strand.
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

  /// The block's first strand (0) or last strand (1).
  __device__ const Strand& end(int which) const {
    return which == 0 ? shared.first : shared.strands[kDecodeWarps - 1];
  }

  /// Whether other blocks have tiles of the block's first strand, or of its last one if that is
  /// another.
  __device__ bool isShared(int which) const {
    const Tiles& tiles = end(which).tiles;
    if (which == 0) return tiles.begin < block.begin;
    return tiles.end > block.end && tiles.begin >= block.begin;
  }

  /// 2. Counts this block's partial results of strands that are split between blocks. If it is the
  /// last block of a strand, it merges all partial results into the output.
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

  /// Merges the partial results of all blocks of a strand into the output.
  __device__ void merge(const Strand& strand) const {
    const int first = shared.work.blockOf(strand.tiles.begin);
    const int shares = shared.work.blockOf(strand.tiles.end - 1) - first + 1;
    mergeToOutput<kDims>(p, strand, shares,
                         [&](int i) { return part(first + i, i == 0 ? 1 : 0); });
  }

  /// The partition depends only on lengths, which no kernel writes. So it is computed before the
  /// wait and overlaps the previous kernel.
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

/// Defines a kernel for head dims of up to kDims and strands of up to 8 kRowTiles rows.
#define PERIGEE_ATTEND_DECODE(name, T, kDims, kRowTiles, kBlocks)             \
  PERIGEE_KERNEL __launch_bounds__(perigee::kDecodeThreads, kBlocks)          \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) {     \
    perigee::attendDecode<perigee::T, kDims, kRowTiles>(p);                   \
  }
