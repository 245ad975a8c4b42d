// Products of a few rows of x with all rows of a bf16 matrix, at the speed at which memory gives
// the matrix: what a decode step's linears share.
//
// Work     A unit is kBoxRows rows of the matrix, or with a gate as many rows of both halves. Every
//          block takes neighbouring units, as many as the others or one less, a pass of up to two
//          boxes of rows at a time, so that nothing is added up between blocks. One warp brings
//          stages of a pass, kStageColumns columns of its rows, by boxes of 64 columns; the other
//          warps take a part of each stage's columns each
// Bound    memory: each weight read once for up to 16 rows. All of a block's shared memory (about
//          200 KiB) is on its way from the first moment, before the kernel in front has ended: what
//          small kernels between two linears take is hidden behind it
// Order    of a sum depends on the matrix's columns alone: a row has the same bits whatever rows
//          are beside it
//
// A sum does not care how its columns are numbered, as long as x and the weight agree. So a lane
// takes 16 bytes of each row it holds, 8 neighbours, and hands them to two instructions in turn:
// nothing is shuffled.
#pragma once

#include "barrier.h"
#include "dynamic-shared.h"
#include "packed-rows.h"
#include "stream-order.h"
#include "tensor-core.h"
#include "tensor-map.h"

namespace perigee {

constexpr int kStreamWarps = 8;  // that multiply; one more copies
constexpr int kStreamThreads = kStreamWarps * kWarp;
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
constexpr int kStageBytes = kPanels * kPanelBytes;
/// From one row of x to the next among a warp's sums: four lanes of a group write to other banks.
constexpr int kSumStride = kPassRows + 4;

/// `shapes` of src/devices/cuda/linear-stream.ts says the same to TypeScript.
template <int kRowTiles>
struct StreamShape {
  static constexpr int kRows = kRowTiles * kTileRows;
  static constexpr int kStages = kRowTiles == 1 ? 13 : 11;
  /// Sums of all warps, twice: one pass writes while another's are read.
  static constexpr int kWarpSums = kRows * kSumStride;
  static constexpr int kPassSums = kStreamWarps * kWarpSums;
  static constexpr int kSumsAt = kStages * kStageBytes;
  static constexpr int kBarriersAt = kSumsAt + 2 * kPassSums * 4;
  static constexpr int kBytes = kBarriersAt + 2 * kStages * 8;
};
static_assert(StreamShape<1>::kBytes <= 227 << 10 && StreamShape<2>::kBytes <= 227 << 10,
              "what a block may have");

/// What the copying warp reads: the matrix as [columns][rows][halves]. Two halves with a gate.
struct StreamSource {
  int units;
  int columns;
  int halves;

  __device__ int unitsOfPass() const { return kPassBoxes / halves; }
};

/// Which units are a block's, and how they are walked over.
struct StreamShare {
  int first;
  int end;
  int stages;  // of a pass

  __device__ explicit StreamShare(const StreamSource& source)
      : first(static_cast<int>(static_cast<int64_t>(source.units) * blockIdx.x / gridDim.x)),
        end(static_cast<int>(static_cast<int64_t>(source.units) * (blockIdx.x + 1) / gridDim.x)),
        stages((source.columns + kStageColumns - 1) / kStageColumns) {}
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

/// The copying warp: stage after stage of pass after pass, as the ring has room. A lane per box.
template <int kStages>
__device__ __forceinline__ void feedStages(const StreamSource& source, const TensorMap& map,
                                           uint8_t* ring, Barrier* full, Barrier* empty) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int panel = lane / kPassBoxes;
  const int box = lane % kPassBoxes;
  const int half = source.halves == 1 ? 0 : box;
  const int unitOfBox = source.halves == 1 ? box : 0;
  const StreamShare share(source);
  RingPlace<kStages> place;
  for (int unit = share.first; unit < share.end; unit += source.unitsOfPass()) {
    const int boxes = min(kPassBoxes, (share.end - unit) * source.halves);
    const bool copies = panel < kPanels && box < boxes;
    const int row = (unit + unitOfBox) * kBoxRows;
    for (int stage = 0; stage < share.stages; ++stage, place.advance()) {
      empty[place.slot].wait(place.round ^ 1);
      // Columns behind the last arrive as zeros.
      if (lane == 0) full[place.slot].expectBytes(boxes * kPanels * kBoxBytes);
      __syncwarp();
      if (!copies) continue;
      uint8_t* const to = ring + place.slot * kStageBytes + panel * kPanelBytes + box * kBoxBytes;
      const int column = stage * kStageColumns + panel * kPanelColumns;
      copyBox(to, map, {{column, row, half, 0, 0}}, full[place.slot]);
    }
  }
}

/// A lane's elements of one stage's columns of x.
template <int kRowTiles>
struct XChunk {
  uint4 rows[kRowTiles];

  __device__ __forceinline__ void load(const uint8_t* const (&from)[kRowTiles], int column,
                                       int columns) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      rows[i] = column < columns
                    ? *reinterpret_cast<const uint4*>(from[i] + static_cast<int64_t>(column) * 2)
                    : make_uint4(0, 0, 0, 0);
    }
  }
};

/// Adds a warp's part of a stage's columns to the sums of its boxes. `own`: this lane's 16 bytes of
/// the first box's row `lane / 4`.
template <int kRowTiles>
__device__ __forceinline__ void multiplyStage(float (&sums)[kPassBoxes][kRowTiles][4],
                                              const uint8_t* own, int boxes,
                                              const XChunk<kRowTiles>& x) {
#pragma unroll
  for (int box = 0; box < kPassBoxes; ++box) {
    if (box >= boxes) break;
    const uint8_t* const upper = own + box * kBoxBytes;
    const uint4 a = *reinterpret_cast<const uint4*>(upper);
    const uint4 b = *reinterpret_cast<const uint4*>(upper + 8 * kPanelRowBytes);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      multiplyAdd(sums[box][i], {a.x, b.x, a.y, b.y}, {x.rows[i].x, x.rows[i].y});
      multiplyAdd(sums[box][i], {a.z, b.z, a.w, b.w}, {x.rows[i].z, x.rows[i].w});
    }
  }
}

/// The multiplying warps.
template <int kRowTiles, typename Job>
__device__ __forceinline__ void multiplyStages(const Job& job, const uint8_t* ring,
                                               float* sumMemory, Barrier* full, Barrier* empty) {
  using Shape = StreamShape<kRowTiles>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / 4;
  const int part = lane % 4;
  const StreamSource source = job.source();
  const StreamShare share(source);
  const int ownColumn = warp * kWarpColumns + part * kLaneColumns;
  const int chunk = ownColumn % kPanelColumns / kLaneColumns;
  const int ownPlace = ownColumn / kPanelColumns * kPanelBytes + group * kPanelRowBytes +
                       ((chunk ^ group) * kLaneColumns * 2);

  // Rows of x of this lane. One behind the last is the last once more; its sum is not stored.
  const uint8_t* rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) rows[i] = job.x.row(min(i * kTileRows + group, job.count - 1));

  RingPlace<Shape::kStages> place;
  XChunk<kRowTiles> x;
  x.load(rows, ownColumn, source.columns);
  int buffer = 0;
  for (int unit = share.first; unit < share.end; unit += source.unitsOfPass(), buffer ^= 1) {
    const int units = min(source.unitsOfPass(), share.end - unit);

    // 1. All columns. x is a stage ahead: it comes from the second cache at times.
    float sums[kPassBoxes][kRowTiles][4] = {};
    for (int stage = 0; stage < share.stages; ++stage, place.advance()) {
      const int next = stage + 1 == share.stages ? 0 : stage + 1;
      XChunk<kRowTiles> ahead;
      ahead.load(rows, next * kStageColumns + ownColumn, source.columns);
      full[place.slot].wait(place.round);
      multiplyStage(sums, ring + place.slot * kStageBytes + ownPlace, units * source.halves, x);
      __syncwarp();
      if (lane == 0) empty[place.slot].arrive();
      x = ahead;
    }

    // 2. The warps' shares. What the pass before last left there has been read: all warps have met
    //    since.
    float* const passSums = sumMemory + buffer * Shape::kPassSums;
    float* const own = passSums + warp * Shape::kWarpSums;
#pragma unroll
    for (int box = 0; box < kPassBoxes; ++box) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = i * kTileRows + 2 * part + j % 2;
          own[row * kSumStride + box * kBoxRows + group + j / 2 * 8] = sums[box][i][j];
        }
      }
    }
    meet<kStreamThreads>(1);
    job.finish(unit, units, PassSums{passSums, Shape::kWarpSums});
  }
}

/// Multiplies and finishes this block's share, with kStreamThreads + kWarp threads. A job has
///   x, count                   the rows of x, at most 8 * kRowTiles
///   source()                   the matrix, which `map` describes
///   finish(unit, units, sums)  stores what a pass from `unit` on makes; kStreamThreads threads call
template <int kRowTiles, typename Job>
__device__ __forceinline__ void streamWeights(const Job& job, const TensorMap& map) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Shape = StreamShape<kRowTiles>;
  uint8_t* const ring = dynamicShared();
  Barrier* const full = reinterpret_cast<Barrier*>(ring + Shape::kBarriersAt);
  Barrier* const empty = full + Shape::kStages;
  if (threadIdx.x == 0) {
    prefetchMap(map);
    for (int i = 0; i < Shape::kStages; ++i) {
      full[i].init(1);
      empty[i].init(kStreamWarps);
    }
    publishBarriers();
  }
  __syncthreads();

  if (threadIdx.x >= kStreamThreads) {
    // Weights are constants: they need not wait for anyone.
    feedStages<Shape::kStages>(job.source(), map, ring, full, empty);
    return;
  }
  waitForPrevious();
  letNextStart();
  float* const sums = reinterpret_cast<float*>(ring + Shape::kSumsAt);
  multiplyStages<kRowTiles>(job, ring, sums, full, empty);
#else
  __trap();
#endif
}

}  // namespace perigee
