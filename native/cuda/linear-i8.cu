// out = x times the transposed weight, plus bias, for many rows of i8: a prompt.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to what out holds
// Shapes   x [T, K] and weight [N, K] i8 with a scale per 128 columns, bias [N] f32, out [T, N] f32
// Work     a block per 48 rows and 64 outputs, a warp per 16 and 16; both operands go through a
//          ring of stages in shared memory
// Bound    the f32 units: 16 columns' sum is an integer of the tensor cores, which takes them 2.25
//          operations to add
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/ops/linear.test.ts
//
// A result has the bits of linear-rows.h, where lane l of a warp sums every 32nd chunk of 16
// columns, and lanes are added in pairs 16, 8, 4, 2 and 1 apart. Here one thread has all lanes'
// sums of its outputs, and 32 numbers each would not fit into registers. So columns are walked in
// the order in which lanes are added (linear-i8-walk.h), and 14 numbers suffice.
#include "dynamic-shared.h"
#include "linear-i8-walk.h"
#include "linear-params.h"
#include "stream-order.h"
#include "tensor-core.h"

namespace perigee {

namespace {

constexpr int kTileRows = 48;
constexpr int kTileOutputs = 64;
constexpr int kWarpTile = 16;  // rows, and outputs
constexpr int kOutputWarps = kTileOutputs / kWarpTile;
constexpr int kThreads = kTileRows / kWarpTile * kOutputWarps * kWarp;
/// Tiles of rows whose blocks run side by side: weights are read from memory once per band.
constexpr int kBandTiles = 16;

/// A row's part of a stage: kTurnChunks chunks, then the 16 bytes that hold its scale. Eight such
/// rows begin in different banks.
constexpr int kPieces = kTurnChunks + 1;
constexpr int kRecordBytes = kPieces * kChunkBytes;
constexpr int kRecords = kTileRows + kTileOutputs;
constexpr int kStageBytes = kRecords * kRecordBytes;
constexpr int kStages = 5;  // 44,800 bytes
constexpr int kCopies = (kRecords * kPieces + kThreads - 1) / kThreads;

/// 1.5 * 2^23 as bits: plus an integer below 2^22 they are those of that float plus the integer.
constexpr int kFloatBits = 0x4b400000;
constexpr float kFloatBase = 12582912.0f;

/// What a thread holds of [16, 16] outputs of its warp: two instructions' results.
constexpr int kHeld = 8;
using Held = float[kHeld];
using Sums = PassSums<kHeld, kThreads>;

/// What a thread brings to each stage: the same piece of the same row.
struct Copy {
  const uint8_t* from;
  int limit;  // a step whose columns do not begin below it brings zeros; or one of the two below
};
constexpr int kNothing = 0;
constexpr int kScale = 0x7fffffff;

/// This block's place.
struct Tile {
  int row;
  int output;
};

__device__ __forceinline__ Copy copyOf(const LinearParams& p, const Tile& tile, int item) {
  if (item >= kRecords * kPieces) return {p.x.memory, kNothing};
  const int record = item / kPieces;
  const int piece = item % kPieces;
  // A row behind the last is the last once more; its sums are not stored.
  const uint8_t* const row =
      record < kTileRows
          ? p.x.row(min(tile.row + record, p.count - 1))
          : p.weight.row(min(tile.output + record - kTileRows, p.outputs - 1));
  const int scales = static_cast<int>(scaleOffset(p.weight.columns));
  if (piece == kTurnChunks) return {row + scales, kScale};
  const int offset = chunkOfPass(0, piece) * kChunkBytes;
  return {row + offset, max(scales - offset, kNothing)};
}

/// Begins the copies of a step. Pieces lie in a stage in the order of threads.
__device__ __forceinline__ void begin(const Copy (&copies)[kCopies], const Step& step,
                                      SharedAddress stage) {
  const int columns = step.group * kGroupColumns + step.pass * kPassOffset;
  const int scales = step.group / kTurns * kChunkBytes;
  const SharedAddress to = stage + threadIdx.x * kChunkBytes;
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    const Copy& copy = copies[i];
    if (copy.limit == kNothing) continue;
    const int offset = copy.limit == kScale ? scales : columns;
    const bool there = offset < copy.limit;
    copyAsync(to + i * kThreads * kChunkBytes, copy.from + (there ? offset : 0),
              there ? kChunkBytes : 0);
  }
}

/// Where a warp finds its rows and scales in a stage: the first is what its lanes hand to
/// loadMatrix, the second what follows a row's chunks.
struct Place {
  int rows;
  int outputs;
  int rowScale;
  int outputScale;
};

__device__ __forceinline__ Place placeOf(int warp, int lane) {
  const int row = warp / kOutputWarps * kWarpTile;
  const int output = kTileRows + warp % kOutputWarps * kWarpTile;
  const int matrix = lane % 16 * kRecordBytes + lane / 16 * kChunkBytes;
  const int scale = kTurnChunks * kChunkBytes;
  return {row * kRecordBytes + matrix, output * kRecordBytes + matrix,
          (row + lane / 4) * kRecordBytes + scale,
          (output + lane % 4 * 2) * kRecordBytes + scale};
}

/// Products of both scales for each number of a thread; a group's scale is one of four in a piece.
__device__ __forceinline__ void loadScales(Held& scales, const unsigned char* stage,
                                           const Place& place, int group) {
  const unsigned char* const at = stage + group % kTurns * 4;
  const auto scaleAt = [&](int offset) { return *reinterpret_cast<const float*>(at + offset); };
  const float rows[2] = {scaleAt(place.rowScale), scaleAt(place.rowScale + 8 * kRecordBytes)};
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int output = i / 4 * 8 + i % 2;
    scales[i] = rows[i / 2 % 2] * scaleAt(place.outputScale + output * kRecordBytes);
  }
}

/// Adds the products of one chunk: of [16, 16] bytes of x and of the weights.
__device__ __forceinline__ void multiplyChunk(Held& sums, const unsigned (&x)[2],
                                              const unsigned (&weight)[2], const Held& scales) {
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    int bits[4];
    multiplyAddS8(bits, x, weight[tile], kFloatBits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float products = __int_as_float(bits[i]) - kFloatBase;
      sums[tile * 4 + i] = fmaf(products, scales[tile * 4 + i], sums[tile * 4 + i]);
    }
  }
}

/// Adds the products of one stage. kWhole: the group has all its chunks, no branch parts their
/// products; else it has `chunks`.
template <bool kWhole>
__device__ __forceinline__ void multiplyStage(Held (&sums)[kTurnChunks], const unsigned char* stage,
                                              const Place& place, const Step& step, int chunks) {
  Held scales;
  loadScales(scales, stage, place, step.group);
  const SharedAddress shared = sharedAddress(stage);
#pragma unroll
  for (int piece = 0; piece < kTurnChunks; piece += 2) {
    // Rows 0 to 7 and 8 to 15 of this chunk, then of the next one.
    unsigned x[4], weight[4];
    loadMatrix(x, shared + place.rows + piece * kChunkBytes);
    loadMatrix(weight, shared + place.outputs + piece * kChunkBytes);
    const int chunk = chunkOfPass(step.pass, piece);
    if (kWhole || chunk < chunks) {
      multiplyChunk(sums[piece], {x[0], x[1]}, {weight[0], weight[1]}, scales);
    }
    if (kWhole || chunk + 1 < chunks) {
      multiplyChunk(sums[piece + 1], {x[2], x[3]}, {weight[2], weight[3]}, scales);
    }
  }
}

/// The ring: stages are filled kStages - 1 steps ahead.
struct Ring {
  unsigned char* memory;
  int groups;
  Copy copies[kCopies];
  Step ahead;  // the next one to fill
  int stage;   // of the step at hand

  __device__ __forceinline__ void fill(int to) {
    if (ahead.pass < kPasses) {
      begin(copies, ahead, sharedAddress(memory) + to * kStageBytes);
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

__device__ __forceinline__ Ring startRing(const LinearParams& p, const Tile& tile,
                                          unsigned char* memory) {
  Ring ring{memory, groupCount(p.weight.columns), {}, {0, 0, 0}, kStages - 1};
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    ring.copies[i] = copyOf(p, tile, static_cast<int>(threadIdx.x) + i * kThreads);
  }
  for (int i = 0; i < kStages - 1; ++i) ring.fill(i);
  return ring;
}

/// All columns: a warp's [16, 16] sums. `aside` is this thread's place behind the stages.
__device__ __forceinline__ void multiplyAll(Held& sums, Ring& ring, const Place& place,
                                            float* aside, int columns) {
  const int chunks = (columns + kChunkBytes - 1) / kChunkBytes;
  Sums held{aside};
  Held kept[2] = {};  // what the first pass leaves
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      held.beginTurn();
#pragma unroll 1
      for (int group = firstGroup(turn); group < ring.groups; group += kTurns) {
        const unsigned char* const stage = ring.next();
        const Step step = {pass, turn, group};
        const int left = chunks - group * kGroupChunks;
        if (left >= kGroupChunks) {
          multiplyStage<true>(held.now, stage, place, step, left);
        } else {
          multiplyStage<false>(held.now, stage, place, step, left);
        }
      }
      held.endTurn(turn);
    }
    // Lanes 2 apart are the two passes; in the first one zeros are added, to sums without -0.
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      kept[0][i] += held.left(0, i);
      kept[1][i] += held.left(1, i);
    }
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) sums[i] = kept[0][i] + kept[1][i];
}

__device__ __forceinline__ void storeSums(const LinearParams& p, int row, int output,
                                          const Held& sums) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int r = row + i / 2 % 2 * 8;
    const int n = output + i / 4 * 8 + i % 2;
    if (r < p.count && n < p.outputs) p.store(r, n, sums[i]);
  }
}

}  // namespace

/// blockIdx: a tile of rows in its band, a tile of outputs, the band.
PERIGEE_KERNEL __launch_bounds__(kThreads)
perigee_linear_i8_many(const __grid_constant__ LinearParams p) {
  unsigned char* const stages = dynamicShared();
  float* const aside = reinterpret_cast<float*>(stages + kStages * kStageBytes) + threadIdx.x;
  joinStream();
  const int rowTile = static_cast<int>(blockIdx.z) * kBandTiles + static_cast<int>(blockIdx.x);
  const Tile tile = {rowTile * kTileRows, static_cast<int>(blockIdx.y) * kTileOutputs};
  if (tile.row >= p.count) return;

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Ring ring = startRing(p, tile, stages);
  Held sums;
  multiplyAll(sums, ring, placeOf(warp, lane), aside, p.weight.columns);
  waitCopies<0>();
  storeSums(p, tile.row + warp / kOutputWarps * kWarpTile + lane / 4,
            tile.output + warp % kOutputWarps * kWarpTile + lane % 4 * 2, sums);
}

}  // namespace perigee
