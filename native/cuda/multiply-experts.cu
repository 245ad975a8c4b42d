// Grouped GEMM of the experts on tensor cores, bf16: out[p, n] = x[row of p] . weight_e[n] for the
// pairs p of a token and an expert e that the router chose for it.
//
//    block: expert e, 64 outputs             ring of 4 stages in shared memory, cp.async
//      weight_e  [64 outputs][64 columns]      -+
//      x rows    [8 or 64 pairs][64 columns]   -+-> warp w: outputs 16 w .. 16 w + 15 by mma,
//      gathered by token                              pairs in groups of 8 -> out [pairs, N]
//
// Shapes   x [T, K] or [pairs, K] bf16; weights X x [N, K] bf16; starts [X + 1]; out [pairs, N] f32
// Work     One block per expert and 64 outputs, which loops over the expert's pairs: in one tile of
//          8 if there are no more, so that few rows cost little more than reading the weights, else
//          in tiles of 64. A warp computes 16 outputs. Stages of 64 columns are copied
//          asynchronously, three ahead
// Bound    few pairs, memory: the chosen experts' weights, read once. Many pairs: the tensor cores,
//          and L2, from which each tile of 64 x 64 reads 256 bytes per column
// Checked  bench/gpu/smoke.mjs, mixtureOfExperts; test/devices/cuda/ops/multiply-experts.test.ts
//
// Sums are in f32, by rising columns: a pair's bits do not depend on the other pairs.
#include "dynamic-shared.h"
#include "packed-rows.h"
#include "tensor-core.h"

namespace perigee {

struct MultiplyExpertsParams {
  PackedRows x;
  PackedRows weight;         // of one expert; its memory field is unused
  uint8_t* const* matrices;  // [X] addresses
  float* out;                // [pairs, N]
  const int* starts;         // [X + 1]
  const int* tokens;         // [pairs] row of x for each; null: row = pair
  int outputs;               // N
};

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kOutputs = 16 * kWarps;
constexpr int kPairsMax = 64;
constexpr int kStages = 4;
/// Bytes of a row in a stage: 64 columns.
constexpr int kStageBytes = 128;
constexpr int kVectorBytes = 16;
constexpr int kVectors = kStageBytes / kVectorBytes;
constexpr int kTileBytes = kOutputs * kStageBytes;
static_assert(kPairsMax == kOutputs, "both tiles have kTileBytes");

/// Swizzled offset of a 16-byte vector: vectors of one column in adjacent rows lie in different
/// banks.
__device__ __forceinline__ int vectorAt(int row, int vector) {
  return row * kStageBytes + ((vector ^ (row % kVectors)) * kVectorBytes);
}

/// A tile of outputs of one expert and up to 8 * kEights of its pairs.
template <int kEights>
struct ExpertTile {
  const MultiplyExpertsParams& p;
  const uint8_t* weights;  // row of the first output
  int outputs;             // number of outputs that exist from there on, at most kOutputs
  int64_t rowBytes;
  const int* rows;  // [pairs] of x, in shared memory
  int pairs;
  SharedAddress memory;

  __device__ SharedAddress weightTile(int step) const {
    return memory + (step % kStages) * 2 * kTileBytes;
  }
  __device__ SharedAddress pairTile(int step) const { return weightTile(step) + kTileBytes; }

  /// Starts the copies of one step's columns; after the last step none.
  __device__ void copy(int step, int steps) const {
    if (step < steps) {
      for (int i = threadIdx.x; i < kOutputs * kVectors; i += kThreads) {
        const int row = i / kVectors;
        copyVector(weightTile(step), weights + min(row, outputs - 1) * rowBytes, i, step,
                   row < outputs);
      }
      for (int i = threadIdx.x; i < 8 * kEights * kVectors; i += kThreads) {
        const int row = i / kVectors;
        const int64_t from = rows[min(row, pairs - 1)];
        copyVector(pairTile(step), p.x.memory + from * rowBytes, i, step, row < pairs);
      }
    }
    commitCopies();
  }

  __device__ void copyVector(SharedAddress tile, const uint8_t* row, int index, int step,
                             bool exists) const {
    const int vector = index % kVectors;
    const int64_t offset = static_cast<int64_t>(step) * kStageBytes + vector * kVectorBytes;
    const bool inside = exists && offset < rowBytes;
    copyAsync(tile + vectorAt(index / kVectors, vector), row + (inside ? offset : 0),
              inside ? kVectorBytes : 0);
  }

  /// Adds the products of one step's columns.
  __device__ void multiply(int step, float (&sums)[kEights][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int matrix = lane / 8;
    const int output = warp * 16 + (matrix % 2) * 8 + lane % 8;
#pragma unroll
    for (int part = 0; part < kVectors / 2; ++part) {
      unsigned a[4];
      loadMatrix(a, weightTile(step) + vectorAt(output, 2 * part + matrix / 2));
#pragma unroll
      for (int eight = 0; eight < kEights; eight += 2) {
        // Two groups of eight pairs; the last group is loaded twice if their number is odd.
        const int pair = min(eight + matrix / 2, kEights - 1) * 8 + lane % 8;
        unsigned b[4];
        loadMatrix(b, pairTile(step) + vectorAt(pair, 2 * part + matrix % 2));
        const unsigned lower[2] = {b[0], b[1]};
        const unsigned upper[2] = {b[2], b[3]};
        multiplyAdd(sums[eight], a, lower);
        if (eight + 1 < kEights) multiplyAdd(sums[eight + 1], a, upper);
      }
    }
  }

  /// Main loop over all columns; `out` points to the first pair's first output.
  __device__ void run(float* out) const {
    const int steps = static_cast<int>((rowBytes + kStageBytes - 1) / kStageBytes);
    for (int step = 0; step < kStages - 1; ++step) copy(step, steps);
    float sums[kEights][4] = {};
    for (int step = 0; step < steps; ++step) {
      waitCopies<kStages - 2>();
      __syncthreads();
      copy(step + kStages - 1, steps);
      multiply(step, sums);
    }
    // The next tile's copies overwrite stages that other warps may still read.
    __syncthreads();

    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int output = static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4;
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t pair = eight * 8 + lane % 4 * 2 + i % 2;
        const int row = output + i / 2 * 8;
        if (pair < pairs && row < outputs) out[pair * p.outputs + row] = sums[eight][i];
      }
    }
  }
};

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kThreads, 3)
perigee_multiply_experts_bf16(const __grid_constant__ MultiplyExpertsParams p) {
  joinStream();
  __shared__ int rows[kPairsMax];
  const int expert = blockIdx.y;
  const int start = p.starts[expert];
  const int end = p.starts[expert + 1];
  const int output = static_cast<int>(blockIdx.x) * kOutputs;
  const int64_t rowBytes = packedRowBytes(Format::bf16, p.weight.columns);
  const uint8_t* const weights = p.matrices[expert] + output * rowBytes;
  const SharedAddress memory = sharedAddress(dynamicShared());

  for (int first = start; first < end; first += kPairsMax) {
    const int pairs = min(end - first, kPairsMax);
    for (int i = threadIdx.x; i < pairs; i += kThreads) {
      rows[i] = p.tokens == nullptr ? first + i : p.tokens[first + i];
    }
    __syncthreads();
    float* const out = p.out + static_cast<int64_t>(first) * p.outputs + output;
    const int outputs = min(p.outputs - output, kOutputs);
    if (pairs <= 8) {
      ExpertTile<1>{p, weights, outputs, rowBytes, rows, pairs, memory}.run(out);
    } else {
      ExpertTile<kPairsMax / 8>{p, weights, outputs, rowBytes, rows, pairs, memory}.run(out);
    }
  }
}

}  // namespace perigee
