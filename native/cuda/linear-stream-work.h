// What a block of linear-stream.h works on: what is multiplied, its share of it, and its shared
// memory.
#pragma once

#include "barrier.h"
#include "packed-rows.h"
#include "tensor-core.h"
#include "tensor-map.h"

namespace perigee {

constexpr int kStreamWarps = 8;  // that multiply; two more copy
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kStreamBlockThreads = kStreamThreads + 2 * kWarp;
constexpr int kBoxRows = 16;     // rows of one instruction
constexpr int kPassBoxes = 2;
constexpr int kPassRows = kPassBoxes * kBoxRows;
constexpr int kTileRows = 8;     // of x, in one instruction
constexpr int kLaneColumns = 8;  // 16 bytes
constexpr int kWarpColumns = 4 * kLaneColumns;
constexpr int kStageColumns = kStreamWarps * kWarpColumns;
constexpr int kPanelColumns = 64;  // 128 bytes, which the copy engine swizzles
constexpr int kPanels = kStageColumns / kPanelColumns;
constexpr int kPanelRowBytes = kPanelColumns * 2;
constexpr int kBoxBytes = kBoxRows * kPanelRowBytes;
constexpr int kPanelBytes = kPassBoxes * kBoxBytes;
constexpr int kWeightBytes = kPanels * kPanelBytes;  // of a stage
/// Between rows of x that stay, so that eight lanes, of two rows, read from all banks.
constexpr int kStayGapBytes = 64;
/// From one row of x to the next among a warp's sums: four lanes of a group write to other banks.
constexpr int kSumStride = kPassRows + 4;

/// `shapes` of src/devices/cuda/ops/linear-stream.ts says the same to TypeScript.
template <int kRowTiles>
struct StreamShape {
  static constexpr int kRows = kRowTiles * kTileRows;
  static constexpr int kXPanelBytes = kRows * kPanelRowBytes;
  static constexpr int kXStageBytes = kPanels * kXPanelBytes;
  static constexpr int kStages = kRowTiles == 1 ? 10 : 7;
  /// Sums of all warps, twice: one pass writes while another's are read.
  static constexpr int kWarpSums = kRows * kSumStride;
  static constexpr int kPassSums = kStreamWarps * kWarpSums;
  /// Stages of weights, then of the same columns of x, or all of x.
  static constexpr int kXAt = kStages * kWeightBytes;
  static constexpr int kSumsAt = kXAt + kStages * kXStageBytes;
  static constexpr int kBarriersAt = kSumsAt + 2 * kPassSums * 4;
  static constexpr int kBytes = kBarriersAt + (2 * kStages + 1) * 8;

  /// Which all of x arrives at, where it stays.
  __device__ static Barrier* rowsBarrier(uint8_t* ring) {
    return reinterpret_cast<Barrier*>(ring + kBarriersAt) + 2 * kStages;
  }
};
static_assert(StreamShape<1>::kBytes <= 227 << 10 && StreamShape<2>::kBytes <= 227 << 10,
              "what a block may have");

/// What the copying warps read. Must lie in the arguments of a kernel.
struct StreamMaps {
  TensorMap passes;  // of the matrix, in boxes of a whole pass
  TensorMap boxes;   // of the matrix, in boxes of kBoxRows rows: where a pass is not whole
  TensorMap x;
};

/// How the maps have the matrix and x. Few large copies: each costs the copy engine some 40 ns.
///   passes  with a gate [columns][rows][halves]; else, of whole units, [columns][kBoxRows][units]
///   boxes   [columns][rows]; not used with a gate
///   x       [columns][rows]
/// Of whole stages the columns are [kPanelColumns] in front and [panels] behind all others, and a
/// box has all panels of a stage.
struct StreamBoxes {
  int wholePasses;  // `passes` is there
  int wholeStages;  // so it is, and rows are a multiple of kStageColumns long
  int xRows;        // in a box
};

/// Rows of x in memory, for those that stay in a block's shared memory.
struct StreamRows {
  const uint8_t* memory;
  int rowBytes;  // whole stages
  int count;     // 0: x comes stage by stage, again in every pass
};

/// What is multiplied.
struct StreamSource {
  int units;
  int columns;
  int halves;  // 2 with a gate
  StreamBoxes boxes;
  StreamRows rows;

  __device__ int unitsOfPass() const { return kPassBoxes / halves; }
};

/// Which units are a block's, pass by pass. All blocks go through the matrix side by side, each
/// with its next pass of whole ones; what is left is shared out unit by unit.
struct StreamShare {
  int passUnits;
  int wholePasses;
  int lastFirst;  // units of the pass behind the whole ones
  int lastUnits;
  int stages;     // of a pass
  int firstStage;

  __device__ explicit StreamShare(const StreamSource& source) : passUnits(source.unitsOfPass()) {
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    wholePasses = source.units / (passUnits * blocks);
    const int shared = wholePasses * passUnits * blocks;
    const int left = source.units - shared;
    // The first blocks have one more: they are the first to find room, the last ones come to
    // multiprocessors on which the kernel in front took longest.
    lastFirst = shared + left / blocks * block + min(block, left % blocks);
    lastUnits = left / blocks + (block < left % blocks ? 1 : 0);
    stages = (source.columns + kStageColumns - 1) / kStageColumns;
    firstStage = stages * block / blocks;
  }

  /// Which columns are a pass's stage number `i`. Each block begins at others and goes round, so
  /// that not all read the same columns of x, and of their rows, at once: 4.08 and 4.28 ms a step
  /// of llama-3.1-8b at batch 1 and 8, instead of 4.11 and 4.30 (one H200).
  __device__ int stage(int i) const {
    const int at = firstStage + i;
    return at < stages ? at : at - stages;
  }

  __device__ int passes() const { return wholePasses + (lastUnits > 0 ? 1 : 0); }

  __device__ int first(int pass) const {
    if (pass == wholePasses) return lastFirst;
    return (pass * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * passUnits;
  }

  __device__ int units(int pass) const { return pass == wholePasses ? lastUnits : passUnits; }
};

/// Which stage is next, and how often the ring went round: odd or even.
template <int kStages>
struct RingPlace {
  int slot = 0;
  int round = 0;

  __device__ void advance() {
    if (++slot < kStages) return;
    slot = 0;
    round ^= 1;
  }
};

/// The sums of a pass: of `kStreamWarps` warps, added in order.
struct PassSums {
  const float* memory;
  int warpSums;

  /// `place`: of the pass's rows of the matrix, box after box.
  __device__ float at(int row, int place) const {
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kStreamWarps; ++warp) {
      sum += memory[warp * warpSums + row * kSumStride + place];
    }
    return sum;
  }
};

}  // namespace perigee
