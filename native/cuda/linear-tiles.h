// Products of some hundred rows of x or fewer with all rows of a bf16 matrix, on Hopper's tensor
// cores: what the linears of a decode step of many sequences share.
//
// Work     A tile is 128 rows of the matrix and all rows of x, up to 256: the matrix's rows are the
//          operand that has to have 64 of them, so that few rows of x waste nothing, and the matrix
//          is read once. Stages of 64 columns. All stages of all tiles are cut in equal stretches,
//          one per cluster of two blocks (linear-tiles-work.h), so that every multiprocessor works
//          to the end whatever the shape. The blocks of a cluster have neighbouring tiles and bring
//          half of the rows of x each, for both. A warp has the copy engine fill a ring of stages;
//          two warpgroups multiply 64 of the matrix's rows each. A tile that was cut is added up by
//          the blocks that had its parts, a share of the rows of x each, when they have done all
//          else
// Bound    memory up to some 190 rows: each weight read once; beyond, tensor cores. The ring is
//          filled with weights before the kernel in front has ended
// Order    of a sum depends on the shape and the count of rows, never on what happens when
//
// Sums of a tile are [128 outputs, kTokens rows]; a thread has kTokens / 2 (warpgroup-products.h).
#pragma once

#include "linear-tiles-work.h"
#include "wide-products.h"
#include "warpgroup-products.h"

namespace perigee {

/// The warp that has stages brought, stretch by stretch.
template <int kTokens, typename Job>
class TileFeed {
 public:
  __device__ TileFeed(const Job& job, TilesMemory<kTokens>& memory)
      : job_(job), memory_(memory), weights_(TileWalk(TileShare(job.work()))), rows_(weights_) {}

  __device__ void run() {
    // 1. As many weights as fit. They are constants: they need not wait for anyone.
    int begun = 0;
    for (; begun < Memory::kStages && weights_.more(); ++begun) bringWeights();

    // 2. Their columns of x.
    waitForPrevious();
    acceptGlobal();
    for (int i = 0; i < begun; ++i) bringRows();

    // 3. The rest, as room becomes free.
    while (weights_.more()) {
      bringWeights();
      bringRows();
    }
  }

 private:
  using Memory = TilesMemory<kTokens>;

  /// A walk stage by stage.
  struct Steps {
    TileWalk walk;
    TilePart part = {};
    RingPlace<Memory::kStages> place;

    __device__ explicit Steps(const TileWalk& of) : walk(of) {
      if (walk.more()) part = walk.part();
    }
    __device__ bool more() const { return walk.more(); }
    __device__ void advance() {
      place.advance();
      ++walk.at;
      ++part.stage;
      if (--part.count == 0 && walk.more()) part = walk.part();
    }
  };

  /// Announces a stage and copies its weights. All lanes wait, one copies.
  __device__ void bringWeights() {
    const int slot = weights_.place.slot;
    memory_.free[slot].wait(weights_.place.parity ^ 1);
    if (isCopier()) {
      // What lies outside of the matrices arrives as zeros.
      memory_.full[slot].expectBytes(Memory::kStageBytes);
      for (int panel = 0; panel < kStagePanels; ++panel) {
        const int column = weights_.part.stage * kStageColumns + panel * kPanelColumns;
        uint8_t* const to = memory_.stages[slot] + panel * Memory::kWeightPanelBytes;
        const BoxPlace from = Job::place(weights_.part.outputTile, column);
        copyBox(to, job_.work().weight, from, memory_.full[slot]);
      }
    }
    __syncwarp();
    weights_.advance();
  }

  /// Copies this block's part of the stage's rows of x to all blocks of the cluster, which have
  /// let the stage go: weights were brought.
  __device__ void bringRows() {
    constexpr int kBoxRows = kTokens / kRowHalves;
    const int slot = rows_.place.slot;
    if (isCopier()) {
      const int rank = clusterRank();
      for (int i = rank; i < kStagePanels * kRowHalves; i += kClusterBlocks) {
        const int panel = i / kRowHalves;
        const int half = i % kRowHalves * kBoxRows;
        uint8_t* const to = memory_.stages[slot] + Memory::kXAt + panel * Memory::kXPanelBytes +
                            half * kPanelRowBytes;
        const int column = rows_.part.stage * kStageColumns + panel * kPanelColumns;
        const int row = rows_.part.tokenTile * kTokens + half;
        copyBoxToCluster(to, job_.work().x, {{column, row, 0, 0, 0}}, memory_.full[slot]);
      }
    }
    __syncwarp();
    rows_.advance();
  }

  __device__ bool isCopier() const { return threadIdx.x % kWarp == 0; }

  const Job& job_;
  Memory& memory_;
  Steps weights_;
  Steps rows_;
};

/// One of the warpgroups that multiply.
template <int kTokens, typename Job>
class TileConsumer {
 public:
  __device__ TileConsumer(const Job& job, TilesMemory<kTokens>& memory, int warpgroup)
      : job_(job), memory_(memory), warpgroup_(warpgroup), share_(job.work()) {}

  __device__ void run() {
    // 1. All parts, and whole tiles to their end.
    for (TileWalk walk(share_); walk.more();) {
      const TilePart part = walk.part();
      float sums[kSums];
      multiply(sums, part.count);
      if (part.count == share_.stages) {
        finish(sums, part, 0);
      } else {
        leave(sums, CutTile(share_, walk.at, part), part);
      }
      walk.advance(part);
    }

    // 2. This block's share of each tile that others had parts of, too.
    if (!kBlocksMeet) return;
    for (TileWalk walk(share_); walk.more();) {
      const TilePart part = walk.part();
      if (part.count < share_.stages) meetOthers(CutTile(share_, walk.at, part), part);
      walk.advance(part);
    }
  }

 private:
  using Memory = TilesMemory<kTokens>;
  using Tile = PanelTile<kPanelColumns>;
  static constexpr int kSums = kTokens / 2;
  static constexpr int kQuads = kSums / 4;
  /// What is added up at once of a tile that was cut, and shared out among its blocks.
  static constexpr int kStepQuads = kQuads <= 16 ? 2 : 4;
  static constexpr int kSteps = kQuads / kStepQuads;

  /// sums = the product of `count` stages.
  __device__ void multiply(float (&sums)[kSums], int count) {
    int before = 0;
    for (int i = 0; i < count; ++i, place_.advance()) {
      memory_.full[place_.slot].wait(place_.parity);
      start(sums, i > 0);
      if (i > 0) {
        waitProducts<1>();
        release(before);
      }
      before = place_.slot;
    }
    waitProducts<0>();
    pinRegisters(sums);
    release(before);
  }

  /// Starts sums (+)= the product of a stage.
  __device__ void start(float (&sums)[kSums], bool adds) const {
    const uint32_t stage = sharedAddress(memory_.stages[place_.slot]);
    const uint32_t weights = stage + warpgroup_ * kHalfOutputs * kPanelRowBytes;
    const uint32_t rows = stage + Memory::kXAt;
    pinRegisters(sums);
    openProducts();
#pragma unroll
    for (int at = 0; at < kStageColumns; at += 16) {
      const int panel = at / kPanelColumns;
      const int column = at % kPanelColumns;
      multiplyShared(sums, Tile::alongRows(weights + panel * Memory::kWeightPanelBytes, column),
                     Tile::alongRows(rows + panel * Memory::kXPanelBytes, column),
                     adds || at > 0);
    }
    closeProducts();
  }

  /// A stage may be filled again once every warp of the cluster has let it go.
  __device__ void release(int slot) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (lane < kClusterBlocks) arriveInCluster(memory_.free[slot], lane);
  }

  /// A tile that several clusters have parts of.
  struct CutTile {
    int first;  // cluster
    int parts;
    int own;    // number of this block's part

    /// `at`: where the part begins among all stages.
    __device__ CutTile(const TileShare& share, int at, const TilePart& part)
        : first(share.ownerOf(at - part.stage)),
          parts(share.ownerOf(at - part.stage + share.stages - 1) - first + 1),
          own(share.cluster - first) {}
  };

  /// How many parts of a tile are there, and then how many blocks know it; 0 between kernels. Of
  /// all tiles, a block begins and does not finish one at most.
  __device__ uint32_t& countOf(const CutTile& tile) const {
    return job_.work().arrived[blockOf(tile.first)];
  }

  /// Leaves a part's sums to whoever adds them up: where blocks do not wait for each other, the
  /// last one does.
  __device__ void leave(const float (&sums)[kSums], const CutTile& tile,
                        const TilePart& part) const {
    float4* const to = partial(tile.first, tile.own);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      to[i * kConsumerThreads] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    }
    __threadfence();
    meet<kConsumerThreads>(kConsumerBarrier);
    if (threadIdx.x == 0) {
      const uint32_t before = atomicAdd(&countOf(tile), 1u);
      if (!kBlocksMeet) memory_.isLast = before + 1 == static_cast<uint32_t>(tile.parts);
    }
    if (kBlocksMeet) return;
    meet<kConsumerThreads>(kConsumerBarrier);
    if (memory_.isLast == 0) return;
    if (threadIdx.x == 0) countOf(tile) = 0;
    __threadfence();
    addUp(tile, part, 0, kSteps);
  }

  /// Adds up this block's share of a tile, once all parts are there. Who is the last to know it
  /// clears the count.
  __device__ void meetOthers(const CutTile& tile, const TilePart& part) const {
    if (threadIdx.x == 0) {
      uint32_t& count = countOf(tile);
      const uint32_t parts = static_cast<uint32_t>(tile.parts);
      waitForCount(count, parts);
      if (atomicAdd(&count, 1u) + 1 == 2 * parts) count = 0;
    }
    meet<kConsumerThreads>(kConsumerBarrier);
    addUp(tile, part, kSteps * tile.own / tile.parts, kSteps * (tile.own + 1) / tile.parts);
  }

  /// Adds up and finishes steps `begin` up to `end` of a tile: of all parts in their order. Many
  /// loads are under way at once.
  __device__ void addUp(const CutTile& tile, const TilePart& part, int begin, int end) const {
    constexpr int kPartsAtOnce = 4;
    for (int step = begin; step < end; ++step) {
      float total[4 * kStepQuads] = {};
      for (int from = 0; from < tile.parts; from += kPartsAtOnce) {
        float4 loaded[kPartsAtOnce][kStepQuads];
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
          // Beyond the last part the last one once more, which is not added.
          const float4* const at = partial(tile.first, min(from + i, tile.parts - 1)) +
                                   step * kStepQuads * kConsumerThreads;
#pragma unroll
          for (int j = 0; j < kStepQuads; ++j) loaded[i][j] = __ldcg(at + j * kConsumerThreads);
        }
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
          if (from + i >= tile.parts) break;
#pragma unroll
          for (int j = 0; j < kStepQuads; ++j) {
            total[4 * j] += loaded[i][j].x;
            total[4 * j + 1] += loaded[i][j].y;
            total[4 * j + 2] += loaded[i][j].z;
            total[4 * j + 3] += loaded[i][j].w;
          }
        }
      }
      finish(total, part, step * kStepQuads);
    }
  }

  /// Stores sums of a tile from quad `quad` on: a quad is 8 rows of x.
  template <int kCount>
  __device__ void finish(const float (&sums)[kCount], const TilePart& part, int quad) const {
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
    const int row = kHalfOutputs * warpgroup_ + thread / kWarp * 16 + thread % kWarp / 4;
    const int token = part.tokenTile * kTokens + 8 * quad + thread % 4 * 2;
    job_.finish(sums, part.outputTile, token, row);
  }

  /// Where this thread has its sums of a tile's part, whose first part is cluster `first`'s. A
  /// block has two places: one for the tile that it begins, one for the tile that it goes on with.
  __device__ float4* partial(int first, int part) const {
    const int place = 2 * blockOf(first + part) + (part == 0 ? 1 : 0);
    float4* const all = reinterpret_cast<float4*>(job_.work().partials);
    return all + static_cast<int64_t>(place) * kQuads * kConsumerThreads + threadIdx.x;
  }

  /// The block of a cluster that has the same tiles of it as this one.
  __device__ int blockOf(int cluster) const { return cluster * kClusterBlocks + clusterRank(); }

  const Job& job_;
  Memory& memory_;
  const int warpgroup_;
  const TileShare share_;
  RingPlace<Memory::kStages> place_;
};

/// Multiplies and finishes this block's share, with kTilesThreads threads. A job has
///   work()                             what is multiplied
///   place(outputTile, column)          the box of the weight's map
///   finish(sums, tile, token, output)  stores a thread's sums of the block's tile number `tile`:
///                                      of rows of x from `token` on, rows of the tile from
///                                      `output` on (warpgroup-products.h)
template <int kTokens, typename Job, bool kRuns = kHopper>
__device__ __forceinline__ void multiplyTiles(const Job& job) {
  if constexpr (kRuns) {
    auto& memory = *reinterpret_cast<TilesMemory<kTokens>*>(panelMemory());
    if (threadIdx.x == 0) {
      prefetchMap(job.work().weight);
      prefetchMap(job.work().x);
      memory.open();
    }
    __syncthreads();
    meetCluster();

    // From one lane, so that the compiler knows that a warp has one role.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarp, 0);
    if (warp >= kConsumerWarps) {
      shrinkRegisters<kProducerRegisters>();
      if (warp == kConsumerWarps) TileFeed<kTokens, Job>(job, memory).run();
    } else {
      growRegisters<kConsumerRegisters>();
      waitForPrevious();
      letNextStart();
      TileConsumer<kTokens, Job>(job, memory, warp / (kWarpgroup / kWarp)).run();
    }
    // Others of the cluster may still arrive at this block's barriers.
    meetCluster();
  } else {
    refuseToRun();
  }
}

}  // namespace perigee
