// Work schedule, shared memory layout and TMA descriptors of linear-stream.h.
#pragma once

#include "barrier.h"
#include "packed-rows.h"
#include "tensor-core.h"
#include "tensor-map.h"

namespace perigee {

constexpr int kStreamWarps = 8;  // warps that multiply; two more copy
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kStreamBlockThreads = kStreamThreads + 2 * kWarp;
constexpr int kBoxRows = 16;     // matrix rows of one mma
constexpr int kPassBoxes = 2;
constexpr int kPassRows = kPassBoxes * kBoxRows;
constexpr int kTileRows = 8;     // rows of x of one mma
constexpr int kLaneColumns = 8;  // 16 bytes
constexpr int kWarpColumns = 4 * kLaneColumns;
constexpr int kStageColumns = kStreamWarps * kWarpColumns;
constexpr int kPanelColumns = 64;  // 128 bytes, which TMA swizzles
constexpr int kPanels = kStageColumns / kPanelColumns;
constexpr int kPanelRowBytes = kPanelColumns * 2;
constexpr int kBoxBytes = kBoxRows * kPanelRowBytes;
constexpr int kPanelBytes = kPassBoxes * kBoxBytes;
constexpr int kWeightBytes = kPanels * kPanelBytes;  // of a stage
/// Padding between rows of x that stay in shared memory, so that eight lanes, of two rows, read
/// from all banks.
constexpr int kStayGapBytes = 64;
/// Stride between rows of x in a warp's sums, so that four lanes of a group write to different
/// banks.
constexpr int kSumStride = kPassRows + 4;

/// Repeated in `shapes` of src/devices/cuda/ops/linear-stream.ts.
template <int kRowTiles>
struct StreamShape {
  static constexpr int kRows = kRowTiles * kTileRows;
  static constexpr int kXPanelBytes = kRows * kPanelRowBytes;
  static constexpr int kXStageBytes = kPanels * kXPanelBytes;
  static constexpr int kStages = kRowTiles == 1 ? 10 : 7;
  /// Sums of all warps, double-buffered: one pass writes while those of another are read.
  static constexpr int kWarpSums = kRows * kSumStride;
  static constexpr int kPassSums = kStreamWarps * kWarpSums;
  /// Offsets: stages of weights, then stages of x with the same columns, or all of x.
  static constexpr int kXAt = kStages * kWeightBytes;
  static constexpr int kSumsAt = kXAt + kStages * kXStageBytes;
  static constexpr int kBarriersAt = kSumsAt + 2 * kPassSums * 4;
  static constexpr int kBytes = kBarriersAt + (2 * kStages + 1) * 8;

  /// Barrier for all of x, where x stays in shared memory.
  __device__ static Barrier* rowsBarrier(uint8_t* ring) {
    return reinterpret_cast<Barrier*>(ring + kBarriersAt) + 2 * kStages;
  }
};
static_assert(StreamShape<1>::kBytes <= 227 << 10 && StreamShape<2>::kBytes <= 227 << 10,
              "what a block may have");

/// TMA descriptors of the copying warps. Must be kernel arguments.
struct StreamMaps {
  TensorMap passes;  // the matrix, in boxes of a whole pass
  TensorMap boxes;   // the matrix, in boxes of kBoxRows rows, for passes that are not whole
  TensorMap x;
};

/// Dimensions of the tensor maps. Copies are few and large: each costs the TMA unit some 40 ns.
///   passes  with a gate [columns][rows][halves]; else, for whole units, [columns][kBoxRows][units]
///   boxes   [columns][rows]; not used with a gate
///   x       [columns][rows]
/// With whole stages the column dimension is split into [kPanelColumns], innermost, and [panels],
/// outermost, and a box holds all panels of a stage.
struct StreamBoxes {
  int wholePasses;  // 1: `passes` is valid
  int wholeStages;  // 1: `passes` is valid and K is a multiple of kStageColumns
  int xRows;        // rows of x in a box
};

/// Rows of x in memory, if all of x stays in a block's shared memory.
struct StreamRows {
  const uint8_t* memory;
  int rowBytes;  // in whole stages
  int count;     // 0: x is copied stage by stage, again in every pass
};

/// The problem size and its copies.
struct StreamSource {
  int units;
  int columns;
  int halves;  // 2 with a gate
  StreamBoxes boxes;
  StreamRows rows;

  __device__ int unitsOfPass() const { return kPassBoxes / halves; }
};

/// Which units a block processes in each pass. In each whole pass all blocks take adjacent units,
/// side by side through the matrix. The remaining units are distributed one by one.
struct StreamSchedule {
  int passUnits;
  int wholePasses;
  int lastFirst;  // units of the pass after the whole ones
  int lastUnits;
  int stages;     // per pass
  int firstStage;

  __device__ explicit StreamSchedule(const StreamSource& source) : passUnits(source.unitsOfPass()) {
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    wholePasses = source.units / (passUnits * blocks);
    const int before = wholePasses * passUnits * blocks;
    const int left = source.units - before;
    // The first blocks get one unit more. They start first; the last blocks run on the SMs on which
    // the previous kernel took longest.
    lastFirst = before + left / blocks * block + min(block, left % blocks);
    lastUnits = left / blocks + (block < left % blocks ? 1 : 0);
    stages = (source.columns + kStageColumns - 1) / kStageColumns;
    firstStage = stages * block / blocks;
  }

  /// Columns of a pass's stage number `i`. Each block starts at another stage and wraps around, so
  /// that blocks do not all read the same columns of x, and of their rows, at once: 4.08 and 4.28
  /// ms per step of llama-3.1-8b at batch 1 and 8, instead of 4.11 and 4.30 (one H200).
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

/// Current slot of the ring buffer, and the parity of its barrier phase.
template <int kStages>
struct PipelineState {
  int slot = 0;
  int parity = 0;

  __device__ void advance() {
    if (++slot < kStages) return;
    slot = 0;
    parity ^= 1;
  }
};

/// The sums of a pass, one set per multiplying warp, added in order.
struct PassSums {
  const float* memory;
  int warpSums;

  /// `place`: row in the pass, box after box.
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
