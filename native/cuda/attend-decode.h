// Decode attention: sequences with few query rows; keys and values in bf16, f16, i8 or fp8.
//
// Stream-K order, for batches of many sequences. Few sequences, or one with a long context, use
// attend-decode-split.h.
//
//    KV tile of 16 positions (registers)          per warp, for each tile of its part of the list:
//      keys    [16, D]  --mma--> scores [16, rows] --exp2, online max--> weights (registers)
//      values  [16, D]  --mma--> sums [D, rows] += values^T . weights
//    then: warps of a query tile merge in shared memory, blocks in scratch memory, by the last
//    block -> out
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over the positions
//          visible to row t; of token trees, rows that are sequences of their own
// Shapes   query [T, H, D] f32; out [T, H, D] bf16; D a multiple of 8; cache: kv-pool.h, block size
//          a multiple of 16 positions
// Work     Every warp gets an equal part of all KV tiles; the grid fills the GPU
//          (attend-decode-work.h). Tiles are loaded from memory straight to registers
//          (attend-decode-tile.h).
// Scratch  `partials`: two PartialResults per block
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
  using Partial = PartialResult<kDims, kRowTiles>;
  using Sums = DecodeSums<kDims, kRowTiles>;

  struct Shared {
    DecodeWork work;
    Partial slots[kDecodeWarps];
    int slotQueryTiles[kDecodeWarps];    // first KV tile of the slot's query tile; -1: empty slot
    QueryTile queryTiles[kDecodeWarps];  // query tile that each warp is processing
    QueryTile first;                     // the block's first; its last is that of the last warp
    int isLast[2];  // for first and last query tile: this block finished last
  };

  const AttendDecodeParams& p;
  Shared& shared;
  TileRange block;

  __device__ Partial* partial(int ofBlock, int which) const {
    return static_cast<Partial*>(p.partials) + 2 * ofBlock + which;
  }

  /// Looks up the query tile of a KV tile for this warp. All its lanes call it.
  __device__ void open(int tile) {
    QueryTile& queryTile = shared.queryTiles[threadIdx.x / kWarp];
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      queryTile = shared.work.queryTileAt(p.input, tile, kRows);
      if (tile == block.begin) shared.first = queryTile;
    }
    __syncwarp();
  }

  /// Stores the block's result of a query tile, which this warp holds: to the output if the block
  /// has the whole query tile, else as a partial result.
  __device__ void publish(const QueryTile& queryTile, const Sums& sums) {
    if (queryTile.kvTiles.begin >= block.begin && queryTile.kvTiles.end <= block.end) {
      storeRows(sums, queryTile.rows, p.input.cache.headDim,
                [&](int row) { return p.outRow(queryTile, row); });
      return;
    }
    const int which = queryTile.kvTiles.begin < block.begin ? 0 : 1;
    partial(static_cast<int>(blockIdx.x), which)->store(sums, queryTile.rows);
    __threadfence();
  }

  /// 1. Attends to this warp's KV tiles, one query tile after another. Then adds what later warps
  /// hold of its last query tile.
  __device__ void attend() {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const TileRange own = DecodeWork::ofWarp(block, warp);
    if (threadIdx.x % kWarp == 0) shared.slotQueryTiles[warp] = -1;
    const QueryTile& queryTile = shared.queryTiles[warp];
    Sums sums;
    bool kept = false;
    for (int tile = own.begin; tile < own.end; tile = min(own.end, queryTile.kvTiles.end)) {
      open(tile);
      const int end = min(own.end, queryTile.kvTiles.end);
      sums.clear();
      WarpAttention<T, kDims, kRowTiles>(p.input, queryTile)
          .run(sums, {tile - queryTile.kvTiles.begin, 1, end - tile});
      if (queryTile.kvTiles.begin < own.begin && own.begin > block.begin) {
        shared.slots[warp].store(sums, queryTile.rows);
        if (threadIdx.x % kWarp == 0) shared.slotQueryTiles[warp] = queryTile.kvTiles.begin;
      } else if (end == own.end) {
        kept = true;
      } else {
        publish(queryTile, sums);
      }
    }
    __syncthreads();
    if (!kept) return;
    for (int other = warp + 1; other < kDecodeWarps; ++other) {
      if (shared.slotQueryTiles[other] != queryTile.kvTiles.begin) continue;
      shared.slots[other].addTo(sums, queryTile.rows);
    }
    publish(queryTile, sums);
  }

  /// The block's first query tile (0) or last query tile (1).
  __device__ const QueryTile& end(int which) const {
    return which == 0 ? shared.first : shared.queryTiles[kDecodeWarps - 1];
  }

  /// Whether other blocks have KV tiles of the block's first query tile, or of its last one if that
  /// is another.
  __device__ bool isSplit(int which) const {
    const TileRange& kvTiles = end(which).kvTiles;
    if (which == 0) return kvTiles.begin < block.begin;
    return kvTiles.end > block.end && kvTiles.begin >= block.begin;
  }

  /// 2. Counts this block's partial results of query tiles that are split between blocks. If it is
  /// the last block of a query tile, it merges all partial results into the output.
  __device__ void arrive() {
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (warp < 2 && threadIdx.x % kWarp == 0 && isSplit(warp)) {
      const TileRange& kvTiles = end(warp).kvTiles;
      const int first = shared.work.blockOf(kvTiles.begin);
      const int blocks = shared.work.blockOf(kvTiles.end - 1) - first + 1;
      shared.isLast[warp] = arrivesLast(first, blocks);
    }
    __syncthreads();
    for (int which = 0; which < 2; ++which) {
      if (isSplit(which) && shared.isLast[which]) merge(end(which));
    }
  }

  /// Merges the partial results of all blocks of a query tile into the output.
  __device__ void merge(const QueryTile& queryTile) const {
    const int first = shared.work.blockOf(queryTile.kvTiles.begin);
    const int blocks = shared.work.blockOf(queryTile.kvTiles.end - 1) - first + 1;
    mergeToOutput<kDims>(p, queryTile, blocks,
                         [&](int i) { return partial(first + i, i == 0 ? 1 : 0); });
  }

  /// The partition depends only on lengths, which no kernel writes. So it is computed before the
  /// wait and overlaps the previous kernel.
  __device__ void run() {
    shared.work.open(p.input, 8 * kRowTiles);
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

/// Defines a kernel for head dims of up to kDims and query tiles of up to 8 kRowTiles rows.
#define PERIGEE_ATTEND_DECODE(name, T, kDims, kRowTiles, kBlocks)             \
  PERIGEE_KERNEL __launch_bounds__(perigee::kDecodeThreads, kBlocks)          \
  perigee_##name(const __grid_constant__ perigee::AttendDecodeParams p) {     \
    perigee::attendDecode<perigee::T, kDims, kRowTiles>(p);                   \
  }
