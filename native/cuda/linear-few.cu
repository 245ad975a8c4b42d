// GEMM of 1 to 16 bf16 rows, out = x W^T + bias: decode steps on GPUs before Hopper (Hopper and
// later use linear-stream.cu).
//
//    block: 16 outputs        K tiles of 64 columns, round robin over warps
//    weight [16, K]     | w0 | w1 | w2 | ... | w7 | w0 | w1 | ...     mma m16n8k16 per warp
//    then: sums of warps 0..7 added in order in shared memory -> out
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], optionally added to out
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32; T <= 8 or T <= 16
// Work     one block per 16 outputs; each of its warps processes every eighth K tile (split-K in
//          the block)
// Bound    memory: the weights, read once whatever T is. Tensor cores are used because the f32
//          units would be the bottleneck from 8 rows on
// Checked  bench/gpu/smoke.mjs, linear
//
// The columns of a sum may be permuted if x and the weight use the same permutation. So a lane
// loads 16 bytes (8 adjacent columns) of each row it holds and passes them to two mma instructions:
// weights go from memory to the tensor cores without a shuffle or shared memory. The partial sums
// of the warps are added in a fixed order, so a row's bits do not depend on the other rows.
#include "linear-params.h"
#include "tensor-core.h"

namespace perigee {

namespace {

constexpr int kWarps = 8;
constexpr int kOutputs = 16;      // per block
constexpr int kTileRows = 8;      // rows of x per instruction
constexpr int kTileColumns = 64;  // columns of a K tile: 128 bytes of each row
constexpr int kLaneColumns = 8;   // 16 bytes

/// 8 columns of a row, zeros after its end.
__device__ __forceinline__ uint4 loadColumns(const uint8_t* row, int column, int columns) {
  if (column >= columns) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(row + static_cast<int64_t>(column) * 2);
}

template <int kRowTiles>
__device__ __forceinline__ void multiplyFew(const LinearParams& p) {
  constexpr int kRows = kRowTiles * kTileRows;
  __shared__ float partialSums[kWarps][kRows][kOutputs];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / 4;
  const int part = lane % 4;
  const int firstOutput = static_cast<int>(blockIdx.x) * kOutputs;

  // 1. Rows of this lane. Indices after the last row are clamped; their sums are not stored.
  const uint8_t* const upper = p.weight.row(min(firstOutput + group, p.outputs - 1));
  const uint8_t* const lower = p.weight.row(min(firstOutput + group + 8, p.outputs - 1));
  const uint8_t* rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) rows[i] = p.x.row(min(i * kTileRows + group, p.count - 1));

  // 2. This warp's columns.
  float sums[kRowTiles][4] = {};
  const int columns = p.weight.columns;
#pragma unroll 2
  for (int start = warp * kTileColumns; start < columns; start += kWarps * kTileColumns) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = start + (half * 4 + part) * kLaneColumns;
      const uint4 a = loadColumns(upper, column, columns);
      const uint4 b = loadColumns(lower, column, columns);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const uint4 x = loadColumns(rows[i], column, columns);
        multiplyAdd(sums[i], {a.x, b.x, a.y, b.y}, {x.x, x.y});
        multiplyAdd(sums[i], {a.z, b.z, a.w, b.w}, {x.z, x.w});
      }
    }
  }

  // 3. The sums of all warps, added in order.
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partialSums[warp][i * kTileRows + 2 * part + j % 2][group + j / 2 * 8] = sums[i][j];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kOutputs; i += blockDim.x) {
    const int row = i / kOutputs;
    const int output = firstOutput + i % kOutputs;
    if (row >= p.count || output >= p.outputs) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += partialSums[w][row][i % kOutputs];
    p.store(row, output, sum);
  }
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kWarps * kWarp)
perigee_linear_few_8(const __grid_constant__ LinearParams p) {
  joinStream();
  multiplyFew<1>(p);
}

PERIGEE_KERNEL __launch_bounds__(kWarps * kWarp)
perigee_linear_few_16(const __grid_constant__ LinearParams p) {
  joinStream();
  multiplyFew<2>(p);
}

}  // namespace perigee
