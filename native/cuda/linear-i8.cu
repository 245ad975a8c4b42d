// i8 GEMM for many rows (prompts): out = x W^T + bias.
//
//    stage: 64 of a group's 128 columns           block: 48 (or 32) rows x 64 outputs
//      x       [48 rows][4 chunks of 16 | scale]    a warp per 16 x 16: mma m16n8k16 s8 per chunk,
//      weight  [64 rows][4 chunks of 16 | scale]    f32 sum += i32 sum * scale of x * scale of w
//    ring of 4 stages, filled by cp.async three ahead
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], optionally added to out
// Shapes   x [T, K] and weight [N, K] i8 with a scale per 128 columns, bias [N] f32, out [T, N] f32
// Work     one block per 48 or 32 rows and 64 outputs, one warp per 16 rows and 16 outputs; both
//          operands pass through a ring of stages in shared memory (linear-i8-ring.h).
//          src/devices/cuda/ops/linear-i8.ts chooses the tile height
// Bound    the f32 units: each integer sum over 16 columns, a tensor core result, takes them 2.25
//          operations to accumulate
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/ops/linear.test.ts
//
// A result has the bits of linear-rows.h. There, lane l of a warp sums every 32nd chunk of 16
// columns, and lanes are added in pairs 16, 8, 4, 2 and 1 apart. Here one thread computes the sums
// of all lanes for its outputs, and 32 floats per output would not fit the registers. So columns
// are processed in the order in which lanes are added (linear-i8-walk.h), which needs only 14
// floats per output, 6 of them in registers.
#include "dynamic-shared.h"
#include "linear-i8-ring.h"
#include "linear-i8-walk.h"
#include "linear-params.h"
#include "stream-order.h"
#include "tensor-core.h"

namespace perigee {

namespace {

/// Bits of 1.5 * 2^23. Adding an integer below 2^22 to these bits adds it to the float.
constexpr int kFloatBits = 0x4b400000;
constexpr float kFloatBase = 12582912.0f;

/// Outputs per thread of a warp's [16, 16] outputs: the results of two mma instructions.
constexpr int kHeld = 8;
using Held = float[kHeld];

/// Offsets of a warp's rows and scales in a stage: of the rows as its lanes pass them to
/// loadMatrix, and of the scales, which follow a row's chunks.
struct Place {
  int rows;
  int outputs;
  int rowScale;
  int outputScale;
};

template <int kRows>
__device__ __forceinline__ Place placeOf(int warp, int lane) {
  const int row = warp / kOutputWarps * kWarpTile;
  const int output = kRows + warp % kOutputWarps * kWarpTile;
  const int matrix = lane % 16 * kRecordBytes + lane / 16 * kChunkBytes;
  const int scale = kTurnChunks * kChunkBytes;
  return {row * kRecordBytes + matrix, output * kRecordBytes + matrix,
          (row + lane / 4) * kRecordBytes + scale,
          (output + lane % 4 * 2) * kRecordBytes + scale};
}

/// Products of both scales for each output of a thread; a piece holds the scales of four groups.
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

/// Adds the products of one chunk: [16, 16] bytes of x times [16, 16] bytes of the weights.
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

/// Adds the products of one stage. kWhole: the group has all its chunks, so the loop has no
/// branches; else it has `chunks` chunks in total.
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

/// Main loop over all columns: a warp's [16, 16] sums. An `idle` warp has no rows and only takes
/// part in copies and barriers. `aside` is this thread's shared memory after the stages.
template <int kRows>
__device__ __forceinline__ void multiplyAll(Held& sums, Ring<kRows>& ring, const Place& place,
                                            float* aside, int columns, bool idle) {
  const int chunks = (columns + kChunkBytes - 1) / kChunkBytes;
  PassSums<kHeld, Shape<kRows>::kThreads> held{aside};
  Held kept[2] = {};  // result of the first pass
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      held.beginTurn();
#pragma unroll 1
      for (int group = firstGroup(turn); group < ring.groups; group += kTurns) {
        const unsigned char* const stage = ring.next();
        if (idle) continue;
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
    // Lanes 2 apart are the two passes. The first pass adds to zeros, which is exact: no sum is -0.
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

/// blockIdx: a row tile in its band, an output tile, the band.
template <int kRows>
__device__ __forceinline__ void multiplyTile(const LinearParams& p) {
  unsigned char* const stages = dynamicShared();
  float* const aside =
      reinterpret_cast<float*>(stages + kStages * Shape<kRows>::kStageBytes) + threadIdx.x;
  joinStream();
  const int rowTile = static_cast<int>(blockIdx.z) * kBandTiles + static_cast<int>(blockIdx.x);
  const Tile tile = {rowTile * kRows, static_cast<int>(blockIdx.y) * kTileOutputs};
  if (tile.row >= p.count) return;

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = tile.row + warp / kOutputWarps * kWarpTile;
  Ring<kRows> ring = startRing<kRows>(p, tile, stages);
  Held sums;
  multiplyAll<kRows>(sums, ring, placeOf<kRows>(warp, lane), aside, p.weight.columns,
                     row >= p.count);
  waitCopies<0>();
  storeSums(p, row + lane / 4, tile.output + warp % kOutputWarps * kWarpTile + lane % 4 * 2, sums);
}

}  // namespace

/// Two resident blocks per SM.
PERIGEE_KERNEL __launch_bounds__(Shape<32>::kThreads, 2)
perigee_linear_i8_many_32(const __grid_constant__ LinearParams p) {
  multiplyTile<32>(p);
}

PERIGEE_KERNEL __launch_bounds__(Shape<48>::kThreads)
perigee_linear_i8_many_48(const __grid_constant__ LinearParams p) {
  multiplyTile<48>(p);
}

}  // namespace perigee
