// Skinny GEMM for decode: a few rows of x times a bf16 matrix at memory bandwidth, by TMA and mma.
//
//    a pass: 32 rows of the matrix             TMA warp A: weights of a stage -> ring slot
//           stage 0       stage 1              TMA warp B: x, same columns    -> ring slot
//         +-------------+-------------+--      warps 0..7: mma on 32 columns of a stage each
//    16   |w0|w1|...|w7 |w0|w1|...|w7 |
//         +-------------+-------------+--      end of pass: sums of warps 0..7 -> shared memory,
//    16   |w0|w1|...|w7 |w0|w1|...|w7 |        added in order -> epilogue -> out
//         +-------------+-------------+--
//           256 columns   256 columns
//
// Work     A unit is kBoxRows matrix rows, or with a gate as many rows of both gate and up. Every
//          block gets an equal number of units, or one less, in passes of up to two boxes of rows.
//          No sums are exchanged between blocks. One warp copies the weights of a stage
//          (kStageColumns columns of a pass's rows), in one box where these are whole. Another warp
//          copies the same columns of x, or all of x once if it is small. The other warps each
//          multiply a part of every stage's columns (split-K inside the block).
// Bound    memory: each weight is read once for up to 16 rows. All of a block's shared memory
//          (about 200 KiB) is requested at once, before the previous kernel has ended. While it
//          fills, the small kernels between two linear ops cost no time.
// Order    The order of a sum depends only on the matrix's shape and the number of SMs, because
//          each block starts at other columns. So a row's bits do not depend on the other rows.
//
// The columns of a sum may be permuted if x and the weight use the same permutation. So a lane
// takes 16 bytes (8 adjacent columns) of each row it holds and passes them to two mma instructions,
// without shuffles.
#pragma once

#include "dynamic-shared.h"
#include "linear-stream-work.h"
#include "stream-order.h"

namespace perigee {

/// Producer warp of the weights: copies stage after stage of all passes as ring slots become free.
/// Weights are constant, so it does not wait for the previous kernel.
template <int kRowTiles>
class WeightProducer {
 public:
  __device__ WeightProducer(const StreamSource& source, const StreamMaps& maps, uint8_t* ring,
                            Barrier* full, Barrier* empty)
      : source_(source), maps_(maps), ring_(ring), full_(full), empty_(empty) {}

  __device__ void run() {
    const StreamSchedule schedule(source_);
    const int passes = schedule.passes();
    PipelineState<StreamShape<kRowTiles>::kStages> state;
    for (int pass = 0; pass < passes; ++pass) {
      const int boxes = schedule.units(pass) * source_.halves;
      for (int stage = 0; stage < schedule.stages; ++stage, state.advance()) {
        empty_[state.slot].wait(state.parity ^ 1);
        // Columns after the last one arrive as zeros.
        if (lane() == 0) full_[state.slot].expectBytes(kPanels * boxes * kBoxBytes);
        __syncwarp();
        copy(state.slot, schedule.stage(stage), schedule.first(pass), boxes);
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  /// One box per lane.
  __device__ void copy(int slot, int stage, int unit, int boxes) const {
    const int panel = lane() / kPassBoxes;
    const int box = lane() % kPassBoxes;
    const bool whole = source_.boxes.wholeStages != 0;
    const bool atOnce = source_.boxes.wholePasses != 0 && boxes == kPassBoxes;
    if (panel >= (whole ? 1 : kPanels) || box >= (atOnce ? 1 : boxes)) return;
    const int column = whole ? 0 : stage * kStageColumns + panel * kPanelColumns;
    const int panels = whole ? stage * kPanels : 0;
    uint8_t* const to = ring_ + slot * kWeightBytes + (panel * boxes + box) * kBoxBytes;
    Barrier& full = full_[slot];
    if (!atOnce) {
      copyBox(to, maps_.boxes, {{column, (unit + box) * kBoxRows, panels, 0, 0}}, full);
    } else if (source_.halves == 1) {
      copyBox(to, maps_.passes, {{column, 0, unit, panels, 0}}, full);
    } else {
      copyBox(to, maps_.passes, {{column, unit * kBoxRows, 0, panels, 0}}, full);
    }
  }

  const StreamSource source_;
  const StreamMaps& maps_;
  uint8_t* const ring_;
  Barrier* const full_;
  Barrier* const empty_;
};

/// Producer warp of x: copies all of x once, or the columns of each stage.
template <int kRowTiles>
class RowProducer {
 public:
  __device__ RowProducer(const StreamSource& source, const StreamMaps& maps, uint8_t* ring,
                         Barrier* full, Barrier* empty)
      : source_(source), maps_(maps), ring_(ring), full_(full), empty_(empty) {}

  __device__ void run() {
    waitForPrevious();
    acceptGlobal();
    if (source_.rows.count > 0) {
      copyAll();
      return;
    }
    const StreamSchedule schedule(source_);
    const int passes = schedule.passes();
    PipelineState<Shape::kStages> state;
    for (int pass = 0; pass < passes; ++pass) {
      for (int stage = 0; stage < schedule.stages; ++stage, state.advance()) {
        empty_[state.slot].wait(state.parity ^ 1);
        const int bytes = kPanels * source_.boxes.xRows * kPanelRowBytes;
        if (lane() == 0) full_[state.slot].expectBytes(bytes);
        __syncwarp();
        copy(state.slot, schedule.stage(stage));
      }
    }
  }

 private:
  using Shape = StreamShape<kRowTiles>;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  /// One row per lane.
  __device__ void copyAll() const {
    const auto [memory, rowBytes, count] = source_.rows;
    Barrier& full = *Shape::rowsBarrier(ring_);
    if (lane() == 0) full.expectBytes(count * rowBytes);
    __syncwarp();
    if (lane() >= count) return;
    uint8_t* const to = ring_ + Shape::kXAt + lane() * (rowBytes + kStayGapBytes);
    copyBulk(to, memory + static_cast<int64_t>(lane()) * rowBytes, rowBytes, full);
  }

  /// One box per lane.
  __device__ void copy(int slot, int stage) const {
    const bool whole = source_.boxes.wholeStages != 0;
    const int panel = lane();
    if (panel >= (whole ? 1 : kPanels)) return;
    uint8_t* const to =
        ring_ + Shape::kXAt + slot * Shape::kXStageBytes + panel * Shape::kXPanelBytes;
    const int column = whole ? 0 : stage * kStageColumns + panel * kPanelColumns;
    copyBox(to, maps_.x, {{column, 0, whole ? stage * kPanels : 0, 0, 0}}, full_[slot]);
  }

  const StreamSource source_;
  const StreamMaps& maps_;
  uint8_t* const ring_;
  Barrier* const full_;
  Barrier* const empty_;
};

/// Adds a warp's columns of a stage to the sums of its boxes. `own`: this lane's 16 bytes of row
/// `lane / 4` of the first box; `x`: the lane's bytes of its rows of x.
template <int kRowTiles>
__device__ __forceinline__ void multiplyStage(float (&sums)[kPassBoxes][kRowTiles][4],
                                              const uint8_t* own, int boxes,
                                              const uint8_t* const (&x)[kRowTiles]) {
  uint4 rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) rows[i] = *reinterpret_cast<const uint4*>(x[i]);
#pragma unroll
  for (int box = 0; box < kPassBoxes; ++box) {
    if (box >= boxes) break;
    const uint8_t* const upper = own + box * kBoxBytes;
    const uint4 a = *reinterpret_cast<const uint4*>(upper);
    const uint4 b = *reinterpret_cast<const uint4*>(upper + 8 * kPanelRowBytes);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      multiplyAdd(sums[box][i], {a.x, b.x, a.y, b.y}, {rows[i].x, rows[i].y});
      multiplyAdd(sums[box][i], {a.z, b.z, a.w, b.w}, {rows[i].z, rows[i].w});
    }
  }
}

/// Main loop of the multiplying warps.
template <int kRowTiles, typename Job>
__device__ __forceinline__ void multiplyStages(const Job& job, uint8_t* ring,
                                               float* sumMemory, Barrier* full, Barrier* empty) {
  using Shape = StreamShape<kRowTiles>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / 4;
  const int part = lane % 4;
  const StreamSource source = job.source();
  const StreamSchedule schedule(source);
  // This lane's 16 bytes in a panel's row: TMA swizzles by the row number.
  const int column = warp * kWarpColumns + part * kLaneColumns;
  const int panel = column / kPanelColumns;
  const int chunk = column % kPanelColumns / kLaneColumns;
  const auto inRow = [&](int row) { return row * kPanelRowBytes + ((chunk ^ (row % 8)) * 16); };
  // Row indices of x are clamped to the last row; the sums of such rows are not stored.
  const bool stays = source.rows.count > 0;
  const int xPanelRows = source.boxes.wholeStages ? source.boxes.xRows : Shape::kRows;
  const uint8_t* xRows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    const int row = min(i * kTileRows + group, job.count - 1);
    xRows[i] = ring + Shape::kXAt +
               (stays ? row * (source.rows.rowBytes + kStayGapBytes) + column * 2
                      : inRow(panel * xPanelRows + row));
  }
  if (stays) Shape::rowsBarrier(ring)->wait(0);

  PipelineState<Shape::kStages> state;
  const int passes = schedule.passes();
  for (int pass = 0; pass < passes; ++pass) {
    const int unit = schedule.first(pass);
    const int units = schedule.units(pass);
    const int boxes = units * source.halves;
    const int weightOffset = panel * boxes * kBoxBytes + inRow(group);

    // 1. All columns of the pass.
    float sums[kPassBoxes][kRowTiles][4] = {};
    for (int stage = 0; stage < schedule.stages; ++stage, state.advance()) {
      const uint8_t* const here = ring + state.slot * kWeightBytes;
      const int xHere =
          stays ? schedule.stage(stage) * kStageColumns * 2 : state.slot * Shape::kXStageBytes;
      const uint8_t* x[kRowTiles];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) x[i] = xRows[i] + xHere;
      full[state.slot].wait(state.parity);
      multiplyStage(sums, here + weightOffset, boxes, x);
      __syncwarp();
      if (lane == 0) empty[state.slot].arrive();
    }

    // 2. The warps' sums to shared memory. The buffer is free: its last readers, two passes ago,
    // have passed a barrier since.
    float* const passSums = sumMemory + pass % 2 * Shape::kPassSums;
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
    namedBarrierSync<kStreamThreads>(1);
    job.finish(unit, units, PassSums{passSums, Shape::kWarpSums});
  }
}

/// GEMM of this block's units, with kStreamBlockThreads threads. A Job provides
///   count                      rows of x, at most 8 * kRowTiles
///   source()                   problem size, as in the tensor maps
///   finish(unit, units, sums)  epilogue of a pass from `unit` on; called by kStreamThreads
template <int kRowTiles, typename Job>
__device__ __forceinline__ void streamWeights(const Job& job, const StreamMaps& maps) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Shape = StreamShape<kRowTiles>;
  uint8_t* const ring = dynamicShared();
  Barrier* const full = reinterpret_cast<Barrier*>(ring + Shape::kBarriersAt);
  Barrier* const empty = full + Shape::kStages;
  if (threadIdx.x == 0) {
    prefetchMap(maps.passes);
    prefetchMap(maps.x);
    // A stage is full when its weights and its columns of x have arrived.
    const int copies = job.source().rows.count > 0 ? 1 : 2;
    for (int i = 0; i < Shape::kStages; ++i) {
      full[i].init(copies);
      empty[i].init(kStreamWarps);
    }
    Shape::rowsBarrier(ring)->init(1);
    publishBarriers();
  }
  __syncthreads();

  if (threadIdx.x >= kStreamThreads + kWarp) {
    RowProducer<kRowTiles>(job.source(), maps, ring, full, empty).run();
    return;
  }
  if (threadIdx.x >= kStreamThreads) {
    WeightProducer<kRowTiles>(job.source(), maps, ring, full, empty).run();
    return;
  }
  waitForPrevious();
  letNextStart();
  float* const sums = reinterpret_cast<float*>(ring + Shape::kSumsAt);
  multiplyStages<kRowTiles>(job, ring, sums, full, empty);
#else
  // GPUs before Hopper never launch this. References, so that the compiler does not warn that the
  // functions are unused.
  static_cast<void>(&Job::source);
  static_cast<void>(&Job::finish);
  __trap();
#endif
}

}  // namespace perigee
