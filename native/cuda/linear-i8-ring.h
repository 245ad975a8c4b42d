// The stages of shared memory through which both operands of linear-i8.cu go, some rows of x and 64
// of the weights in the order of linear-i8-walk.h.
#pragma once

#include "linear-i8-walk.h"
#include "linear-params.h"
#include "tensor-core.h"

namespace perigee {

constexpr int kTileOutputs = 64;
constexpr int kWarpTile = 16;  // rows, and outputs
constexpr int kOutputWarps = kTileOutputs / kWarpTile;
/// Tiles of rows whose blocks run side by side: weights are read from memory once per band.
constexpr int kBandTiles = 16;

/// A row's part of a stage: kTurnChunks chunks, then the 16 bytes that hold its scale. Eight such
/// rows begin in different banks.
constexpr int kPieces = kTurnChunks + 1;
constexpr int kRecordBytes = kPieces * kChunkBytes;
/// With a fifth one a block of 32 rows would not fit into the 99 KiB that some chips let it have.
constexpr int kStages = 4;

/// What a thread brings to each stage: the same piece of the same row.
struct Copy {
  const uint8_t* from;
  int limit;  // a step whose columns do not begin below it brings zeros; or one of the two below
};
constexpr int kNothing = 0;
constexpr int kScale = 0x7fffffff;

/// What follows from the rows of a block's tile.
template <int kRows>
struct Shape {
  static constexpr int kThreads = kRows / kWarpTile * kOutputWarps * kWarp;
  static constexpr int kRecords = kRows + kTileOutputs;
  static constexpr int kStageBytes = kRecords * kRecordBytes;
  static constexpr int kCopies = (kRecords * kPieces + kThreads - 1) / kThreads;
  using Copies = Copy[kCopies];
};

/// This block's place.
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
  // What a stage has for a row that is not there does not matter: its sums are not stored. The
  // last row in its place would have all blocks ask the L2 for the same bytes over and over.
  const bool there = record < Shape<kRows>::kRecords && index < (isWeight ? p.outputs : p.count);
  if (!there) return {p.x.memory, kNothing};
  const uint8_t* const row = isWeight ? p.weight.row(index) : p.x.row(index);
  const int scales = static_cast<int>(scaleOffset(p.weight.columns));
  if (piece == kTurnChunks) return {row + scales, kScale};
  const int offset = chunkOfPass(0, piece) * kChunkBytes;
  return {row + offset, max(scales - offset, kNothing)};
}

/// Begins the copies of a step. Pieces lie in a stage in the order of threads.
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

/// The ring: stages are filled kStages - 1 steps ahead.
template <int kRows>
struct Ring {
  static constexpr int kStageBytes = Shape<kRows>::kStageBytes;
  unsigned char* memory;
  int groups;
  typename Shape<kRows>::Copies copies;
  Step ahead;  // the next one to fill
  int stage;   // of the step at hand

  __device__ __forceinline__ void fill(int to) {
    if (ahead.pass < kPasses) {
      begin<kRows>(copies, ahead, sharedAddress(memory) + to * kStageBytes);
      ahead.advance(groups);
    }
    commitCopies();
  }

  /// The next step's stage, when it is there. All threads of the block call it.
  __device__ __forceinline__ const unsigned char* next() {
    const int free = stage;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    waitCopies<kStages - 2>();
    __syncthreads();
    // Behind the barrier all warps are done with the stage before.
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
