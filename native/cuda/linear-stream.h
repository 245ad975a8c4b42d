// Products of a few rows of x with all rows of a bf16 matrix, at the speed at which memory gives
// the matrix: what a decode step's linears share.
//
// Work     A strip is kStripOutputs rows of the matrix. Every block takes neighbouring strips, as
//          many as the others or one less, kPassStrips at a time, so that nothing is added up
//          between blocks. One warp brings stages of a pass, kStageColumns columns of its rows, by
//          bulk copies; the other warps take a part of each stage's columns each
// Bound    memory: each weight read once for up to 16 rows. All of a block's shared memory (about
//          200 KiB) is on its way from the first moment, before the kernel in front has ended: what
//          small kernels between two linears take is hidden behind it
// Order    of a sum depends on the matrix's columns alone: a row has the same bits whatever rows
//          are beside it
//
// A sum does not care how its columns are numbered, as long as x and the weight agree. So a lane
// takes 16 bytes of each row it holds, 8 neighbours, and hands them to two instructions in turn:
// nothing is shuffled. Rows of a stage begin 64 bytes past a multiple of 128: the eight lanes that
// load together find 32 different banks.
#pragma once

#include "barrier.h"
#include "dynamic-shared.h"
#include "packed-rows.h"
#include "stream-order.h"
#include "tensor-core.h"

namespace perigee {

constexpr int kStreamWarps = 8;  // that multiply; one more copies
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kStripOutputs = 16;  // rows of one instruction
constexpr int kPassStrips = 2;
constexpr int kPassOutputs = kPassStrips * kStripOutputs;
constexpr int kTileRows = 8;     // of x, in one instruction
constexpr int kLaneColumns = 8;  // 16 bytes
constexpr int kWarpColumns = 4 * kLaneColumns;
constexpr int kStageColumns = kStreamWarps * kWarpColumns;
constexpr int kStageRowBytes = kStageColumns * 2 + 64;
constexpr int kStageBytes = kPassOutputs * kStageRowBytes;
/// From one row of x to the next among a warp's sums: four lanes of a group write to other banks.
constexpr int kSumStride = kPassOutputs + 4;
/// Barriers come first, in so many bytes.
constexpr int kBarrierBytes = 256;

/// `StreamShape` of src/devices/cuda/linear-stream.ts says the same to TypeScript.
template <int kRowTiles>
struct StreamShape {
  static constexpr int kRows = kRowTiles * kTileRows;
  static constexpr int kStages = kRowTiles == 1 ? 11 : 10;
  /// Sums of all warps, twice: one pass writes while another's are read.
  static constexpr int kWarpSums = kRows * kSumStride;
  static constexpr int kPassSums = kStreamWarps * kWarpSums;
  static constexpr int kSumsAt = kBarrierBytes + kStages * kStageBytes;
  static constexpr int kBytes = kSumsAt + 2 * kPassSums * 4;
};
static_assert(StreamShape<1>::kBytes <= 227 << 10 && StreamShape<2>::kBytes <= 227 << 10,
              "what a block may have");

/// Which strips are a block's, and how they are walked over.
struct StreamShare {
  int first;   // strip
  int end;
  int stages;  // of a pass

  __device__ StreamShare(int strips, int columns)
      : first(static_cast<int>(static_cast<int64_t>(strips) * blockIdx.x / gridDim.x)),
        end(static_cast<int>(static_cast<int64_t>(strips) * (blockIdx.x + 1) / gridDim.x)),
        stages((columns + kStageColumns - 1) / kStageColumns) {}
};

/// Which stage is next, and how often the ring went round.
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

  /// `place`: of the pass's kPassOutputs outputs.
  __device__ float at(int row, int place) const {
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kStreamWarps; ++warp) {
      sum += memory[warp * warpSums + row * kSumStride + place];
    }
    return sum;
  }
};

/// The copying warp: stage after stage of pass after pass, as the ring has room.
template <int kStages, typename Job>
__device__ __forceinline__ void feedStages(const Job& job, const StreamShare& share, uint8_t* ring,
                                           Barrier* full, Barrier* empty) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int rowBytes = static_cast<int>(packedRowBytes(Format::bf16, job.weight.columns));
  RingPlace<kStages> place;
  for (int strip = share.first; strip < share.end; strip += kPassStrips) {
    const int rows = min(kPassStrips, share.end - strip) * kStripOutputs;
    const bool copies = lane < rows;
    const uint8_t* const row =
        job.weightRow(strip + lane / kStripOutputs, lane % kStripOutputs, copies);
    for (int stage = 0; stage < share.stages; ++stage, place.advance()) {
      const int start = stage * kStageColumns * 2;
      const int bytes = min(kStageColumns * 2, rowBytes - start);
      empty[place.slot].wait(place.round ^ 1);
      if (lane == 0) full[place.slot].expectBytes(rows * bytes);
      __syncwarp();
      uint8_t* const to = ring + place.slot * kStageBytes + lane * kStageRowBytes;
      if (copies) copyBulk(to, row + start, bytes, full[place.slot]);
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

/// The multiplying warps. A job has
///   x, weight, count             operands, and the rows of x: at most 8 * kRowTiles
///   strips()                     of the matrix
///   weightRow(strip, i, real)    address of the strip's row i of kStripOutputs; any row where not
///                                `real` or behind the last
///   finish(strip, strips, sums)  stores what a pass from `strip` on makes; kStreamThreads threads
///                                call it
template <int kRowTiles, typename Job>
__device__ __forceinline__ void multiplyStages(const Job& job, const StreamShare& share,
                                               uint8_t* ring, float* sumMemory, Barrier* full,
                                               Barrier* empty) {
  using Shape = StreamShape<kRowTiles>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / 4;
  const int part = lane % 4;
  const int columns = job.weight.columns;
  const int ownColumn = warp * kWarpColumns + part * kLaneColumns;

  // Rows of x of this lane. One behind the last is the last once more; its sum is not stored.
  const uint8_t* rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) rows[i] = job.x.row(min(i * kTileRows + group, job.count - 1));

  RingPlace<Shape::kStages> place;
  XChunk<kRowTiles> x;
  x.load(rows, ownColumn, columns);
  int buffer = 0;
  for (int strip = share.first; strip < share.end; strip += kPassStrips, buffer ^= 1) {
    const int strips = min(kPassStrips, share.end - strip);

    // 1. All columns. x is a stage ahead: it comes from the second cache at times.
    float sums[kPassStrips][kRowTiles][4] = {};
    for (int stage = 0; stage < share.stages; ++stage, place.advance()) {
      const int column = stage * kStageColumns + ownColumn;
      const int next = stage + 1 == share.stages ? ownColumn : column + kStageColumns;
      XChunk<kRowTiles> ahead;
      ahead.load(rows, next, columns);
      full[place.slot].wait(place.round);
      const uint8_t* const own =
          ring + place.slot * kStageBytes + group * kStageRowBytes + (ownColumn * 2);
#pragma unroll
      for (int s = 0; s < kPassStrips; ++s) {
        if (s >= strips) break;
        const uint8_t* const upper = own + s * kStripOutputs * kStageRowBytes;
        uint4 a = *reinterpret_cast<const uint4*>(upper);
        uint4 b = *reinterpret_cast<const uint4*>(upper + kTileRows * kStageRowBytes);
        // Behind the last column lies what an earlier stage left; x is zero there, but that may be
        // NaN.
        if (column >= columns) a = b = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          multiplyAdd(sums[s][i], {a.x, b.x, a.y, b.y}, {x.rows[i].x, x.rows[i].y});
          multiplyAdd(sums[s][i], {a.z, b.z, a.w, b.w}, {x.rows[i].z, x.rows[i].w});
        }
      }
      __syncwarp();
      if (lane == 0) empty[place.slot].arrive();
      x = ahead;
    }

    // 2. The warps' shares. What the pass before last left there has been read: all warps have met
    //    since.
    float* const passSums = sumMemory + buffer * Shape::kPassSums;
    float* const own = passSums + warp * Shape::kWarpSums;
#pragma unroll
    for (int s = 0; s < kPassStrips; ++s) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = i * kTileRows + 2 * part + j % 2;
          own[row * kSumStride + s * kStripOutputs + group + j / 2 * 8] = sums[s][i][j];
        }
      }
    }
    meet<kStreamThreads>(1);
    job.finish(strip, strips, PassSums{passSums, Shape::kWarpSums});
  }
}

/// Multiplies and finishes this block's share. kStreamThreads + kWarp threads.
template <int kRowTiles, typename Job>
__device__ __forceinline__ void streamWeights(const Job& job) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Shape = StreamShape<kRowTiles>;
  uint8_t* const shared = dynamicShared();
  Barrier* const full = reinterpret_cast<Barrier*>(shared);
  Barrier* const empty = full + Shape::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      full[i].init(1);
      empty[i].init(kStreamWarps);
    }
    publishBarriers();
  }
  __syncthreads();

  const StreamShare share(job.strips(), job.weight.columns);
  uint8_t* const ring = shared + kBarrierBytes;
  if (threadIdx.x >= kStreamThreads) {
    // Weights are constants: they need not wait for anyone.
    feedStages<Shape::kStages>(job, share, ring, full, empty);
    return;
  }
  waitForPrevious();
  letNextStart();
  float* const sums = reinterpret_cast<float*>(shared + Shape::kSumsAt);
  multiplyStages<kRowTiles>(job, share, ring, sums, full, empty);
#else
  __trap();
#endif
}

}  // namespace perigee
