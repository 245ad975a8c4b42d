// What a block of linear-tiles.h works on: its share of the product, and its shared memory.
#pragma once

#include "cluster.h"
#include "hopper.h"
#include "packed-rows.h"
#include "panels.h"

namespace perigee {

constexpr int kConsumers = 2;      // warpgroups that multiply
constexpr int kHalfOutputs = 64;   // of one of them
constexpr int kTileOutputs = kConsumers * kHalfOutputs;
constexpr int kConsumerThreads = kConsumers * kWarpgroup;
constexpr int kConsumerWarps = kConsumerThreads / kWarp;
constexpr int kTilesThreads = kConsumerThreads + kWarpgroup;

/// Half of the rows of x of a stage are one copy: each block of a cluster brings its part.
constexpr int kRowHalves = 2;
static_assert(kRowHalves % kClusterBlocks == 0, "each block brings as many");

/// Registers per thread: 65536 in all.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
/// What each thread has when the block starts: an equal share, by eights. More together would not
/// fail but wait for ever.
constexpr int kRegistersAtStart = 65536 / kTilesThreads / 8 * 8;
static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <=
                  (kConsumers + 1) * kRegistersAtStart,
              "registers that the block has");

/// Barrier among the threads that multiply.
constexpr int kConsumerBarrier = 1;

/// Shared memory of a block, but for what its alignment takes.
constexpr int kTilesBytes = (227 << 10) - 1024;
constexpr int kBarriersBytes = 512;

/// Columns of a stage: of the weight, and the same ones of x.
constexpr int kStagePanels = 1;
constexpr int kStageColumns = kStagePanels * kPanelColumns;

/// Must be a struct's first field; `workFields` of src/devices/cuda/linear-tiles.ts fills it.
struct TileWork {
  TensorMap weight;
  TensorMap x;       // [columns][rows]
  float* partials;   // [blocks][2][kTokens / 8][kConsumerThreads][4]
  uint32_t* arrived; // [blocks], 0 between kernels
  int outputTiles;   // of kTileOutputs rows of the weight
  int tokenTiles;    // of kTokens rows of x
  int columns;       // K
  int grains;        // of a tile: it may be cut between them
  int unused[8];     // up to a multiple of 64 bytes
};

/// Stages of all tiles, in their order, are cut in as many equal stretches as there are clusters,
/// between grains. A cluster's tile is one of each of its blocks, side by side.
struct TileShare {
  int tokenTiles;
  int stages;    // of a tile
  int grain;     // stages
  int grains;    // of all tiles
  int clusters;  // with work
  int cluster;

  __device__ explicit TileShare(const TileWork& work) : tokenTiles(work.tokenTiles) {
    stages = (work.columns + kStageColumns - 1) / kStageColumns;
    grain = stages % work.grains == 0 ? stages / work.grains : 1;
    const int tiles = (work.outputTiles + kClusterBlocks - 1) / kClusterBlocks * tokenTiles;
    grains = tiles * (stages / grain);
    clusters = min(static_cast<int>(gridDim.x) / kClusterBlocks, grains);
    cluster = static_cast<int>(blockIdx.x) / kClusterBlocks;
  }

  /// Where a cluster's stretch begins; it ends where the next one's does.
  __device__ int begin(int of) const {
    return static_cast<int>(static_cast<int64_t>(grains) * min(of, clusters) / clusters) * grain;
  }

  /// Whose stretch has this stage.
  __device__ int ownerOf(int stage) const {
    return static_cast<int>((static_cast<int64_t>(stage / grain + 1) * clusters - 1) / grains);
  }
};

/// The part of a tile that a cluster has.
struct TilePart {
  int outputTile;  // of the block
  int tokenTile;
  int stage;       // the first
  int count;       // of stages
};

/// A cluster's parts, one after the other.
struct TileWalk {
  TileShare share;
  int at;
  int end;

  __device__ explicit TileWalk(const TileShare& of)
      : share(of), at(of.begin(of.cluster)), end(of.begin(of.cluster + 1)) {}

  __device__ bool more() const { return at < end; }

  __device__ TilePart part() const {
    const int tile = at / share.stages;
    const int stage = at - tile * share.stages;
    const int pair = tile / share.tokenTiles;
    return {pair * kClusterBlocks + clusterRank(), tile - pair * share.tokenTiles, stage,
            min(share.stages - stage, end - at)};
  }

  __device__ void advance(const TilePart& part) { at += part.count; }
};

/// The place of the next thing in a ring, and the parity of its phase.
template <int kPlaces>
struct RingPlace {
  int slot = 0;
  int parity = 0;

  __device__ void advance() {
    if (++slot < kPlaces) return;
    slot = 0;
    parity ^= 1;
  }
};

template <int kTokens>
struct TilesMemory {
  static constexpr int kWeightPanelBytes = kTileOutputs * kPanelRowBytes;
  static constexpr int kXPanelBytes = kTokens * kPanelRowBytes;
  /// Panels of the weight, then those of x.
  static constexpr int kXAt = kStagePanels * kWeightPanelBytes;
  static constexpr int kStageBytes = kXAt + kStagePanels * kXPanelBytes;
  static constexpr int kStages = (kTilesBytes - kBarriersBytes) / kStageBytes;
  static_assert(kTokens / kRowHalves % kSwizzleRows == 0, "a copy begins where the swizzle does");

  uint8_t stages[kStages][kStageBytes];
  Barrier full[kStages];
  Barrier free[kStages];
  int isLast;

  /// One thread calls it. What is here begins at a multiple of 1024.
  __device__ void open() {
    static_assert(sizeof(TilesMemory) <= kTilesBytes, "what a block may have");
    for (int i = 0; i < kStages; ++i) {
      full[i].init(1);
      free[i].init(kConsumerWarps * kClusterBlocks);
    }
    publishBarriers();
  }
};

}  // namespace perigee
