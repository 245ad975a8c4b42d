// Shared memory ring of linear-i8.cu: stages with rows of x and 64 rows of the weights, in the
// order of linear-i8-walk.h.
#pragma once

#include "linear-i8-walk.h"
#include "linear-params.h"
#include "tensor-core.h"

namespace perigee {

constexpr int kTileOutputs = 64;
constexpr int kWarpTile = 16;  // rows, and outputs, of a warp
constexpr int kOutputWarps = kTileOutputs / kWarpTile;
/// Row tiles whose blocks run side by side: weights are read from memory once per band.
constexpr int kBandTiles = 16;

/// A row's part of a stage: kTurnChunks chunks, then the 16 bytes that contain its scale. Eight
/// such rows begin in different banks.
constexpr int kPieces = kTurnChunks + 1;
constexpr int kRecordBytes = kPieces * kChunkBytes;
/// With a fifth stage, a block of 32 rows would exceed the 99 KiB of shared memory that some GPUs
/// allow.
constexpr int kStages = 4;

/// A thread's copy for each stage: always the same piece of the same row.
struct Copy {
  const uint8_t* from;
  int limit;  // columns from here on become zeros; or kNothing or kScale
};
constexpr int kNothing = 0;
constexpr int kScale = 0x7fffffff;

/// Sizes that depend on the rows of a block's tile.
template <int kRows>
struct Shape {
  static constexpr int kThreads = kRows / kWarpTile * kOutputWarps * kWarp;
  static constexpr int kRecords = kRows + kTileOutputs;
  static constexpr int kStageBytes = kRecords * kRecordBytes;
  static constexpr int kCopies = (kRecords * kPieces + kThreads - 1) / kThreads;
  using Copies = Copy[kCopies];
};

/// Position of this block's tile in the output.
struct Tile {
  int row;
  int output;
};

template <int kRows>
__device__ __forceinline__ Copy copyOf(const LinearParams& p, const Tile& tile, int item) {
  const int record = item / kPieces;
  const int piece = item % kPieces;
  const bool isWeight = record >= kRows;
  const int index = isWeight ? tile.output + record - kRows : tile.row + record;
  // The stage's contents for a row that does not exist do not matter: its sums are not stored.
  // Clamping to the last row would make all blocks request the same bytes from L2 over and over.
  const bool there = record < Shape<kRows>::kRecords && index < (isWeight ? p.outputs : p.count);
  if (!there) return {p.x.memory, kNothing};
  const uint8_t* const row = isWeight ? p.weight.row(index) : p.x.row(index);
  const int scales = static_cast<int>(scaleOffset(p.weight.columns));
  if (piece == kTurnChunks) return {row + scales, kScale};
  const int offset = chunkOfPass(0, piece) * kChunkBytes;
  return {row + offset, max(scales - offset, kNothing)};
}

/// Starts the copies of a step. In a stage, pieces lie in the order of threads.
template <int kRows>
__device__ __forceinline__ void begin(const typename Shape<kRows>::Copies& copies,
                                      const Step& step, SharedAddress stage) {
  const int columns = step.group * kGroupColumns + step.pass * kPassOffset;
  const int scales = step.group / kTurns * kChunkBytes;
  const SharedAddress to = stage + threadIdx.x * kChunkBytes;
#pragma unroll
  for (int i = 0; i < Shape<kRows>::kCopies; ++i) {
    const Copy& copy = copies[i];
    if (copy.limit == kNothing) continue;
    const int offset = copy.limit == kScale ? scales : columns;
    const bool there = offset < copy.limit;
    copyAsync(to + i * Shape<kRows>::kThreads * kChunkBytes, copy.from + (there ? offset : 0),
              there ? kChunkBytes : 0);
  }
}

/// The ring buffer: stages are filled kStages - 1 steps ahead.
template <int kRows>
struct Ring {
  static constexpr int kStageBytes = Shape<kRows>::kStageBytes;
  unsigned char* memory;
  int groups;
  typename Shape<kRows>::Copies copies;
  Step ahead;  // the next step to fill
  int stage;   // stage of the current step

  __device__ __forceinline__ void fill(int to) {
    if (ahead.pass < kPasses) {
      begin<kRows>(copies, ahead, sharedAddress(memory) + to * kStageBytes);
      ahead.advance(groups);
    }
    commitCopies();
  }

  /// Waits for the next step's stage and returns it. All threads of the block call it.
  __device__ __forceinline__ const unsigned char* next() {
    const int free = stage;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    waitCopies<kStages - 2>();
    __syncthreads();
    // After the barrier no warp reads the previous stage any more.
    fill(free);
    return memory + stage * kStageBytes;
  }
};

template <int kRows>
__device__ __forceinline__ Ring<kRows> startRing(const LinearParams& p, const Tile& tile,
                                                 unsigned char* memory) {
  Ring<kRows> ring{memory, groupCount(p.weight.columns), {}, {0, 0, 0}, kStages - 1};
#pragma unroll
  for (int i = 0; i < Shape<kRows>::kCopies; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * Shape<kRows>::kThreads;
    ring.copies[i] = copyOf<kRows>(p, tile, item);
  }
  for (int i = 0; i < kStages - 1; ++i) ring.fill(i);
  return ring;
}

}  // namespace perigee
