// out = x times the transposed weight, plus bias, for 1 to 16 rows of bf16: a decode step on GPUs
// before Hopper (linear-stream.cu is for the others).
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to what out holds
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32; T <= 8 or T <= 16
// Work     a block per 16 outputs; its warps take every eighth stretch of 64 columns each
// Bound    memory: the weights, read once whatever T is. Tensor cores, because the f32 units would
//          be the bound from 8 rows on
// Checked  bench/gpu/smoke.mjs, linear
//
// A sum does not care how its columns are numbered, as long as x and the weight agree. So a lane
// loads 16 bytes of each row it holds, 8 neighbours, and hands them to two instructions in turn:
// weights go from memory to the tensor core without a shuffle or shared memory. The shares of warps
// are added in order: a row has the same bits whatever rows are beside it.
#include "linear-params.h"
#include "tensor-core.h"

namespace perigee {

namespace {

constexpr int kWarps = 8;
constexpr int kOutputs = 16;      // of a block
constexpr int kTileRows = 8;      // of x, in one instruction
constexpr int kStretch = 64;      // columns of a warp at a time: 128 bytes of each row
constexpr int kLaneColumns = 8;   // 16 bytes

/// 8 columns of a row, zeros behind its end.
__device__ __forceinline__ uint4 loadColumns(const uint8_t* row, int column, int columns) {
  if (column >= columns) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(row + static_cast<int64_t>(column) * 2);
}

template <int kRowTiles>
__device__ __forceinline__ void multiplyFew(const LinearParams& p) {
  constexpr int kRows = kRowTiles * kTileRows;
  __shared__ float shares[kWarps][kRows][kOutputs];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane / 4;
  const int part = lane % 4;
  const int firstOutput = static_cast<int>(blockIdx.x) * kOutputs;

  // 1. Rows of this lane. One behind the last is the last once more; its sum is not stored.
  const uint8_t* const upper = p.weight.row(min(firstOutput + group, p.outputs - 1));
  const uint8_t* const lower = p.weight.row(min(firstOutput + group + 8, p.outputs - 1));
  const uint8_t* rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) rows[i] = p.x.row(min(i * kTileRows + group, p.count - 1));

  // 2. This warp's share of the columns.
  float sums[kRowTiles][4] = {};
  const int columns = p.weight.columns;
#pragma unroll 2
  for (int start = warp * kStretch; start < columns; start += kWarps * kStretch) {
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

  // 3. All warps' shares, added in order.
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      shares[warp][i * kTileRows + 2 * part + j % 2][group + j / 2 * 8] = sums[i][j];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kOutputs; i += blockDim.x) {
    const int row = i / kOutputs;
    const int output = firstOutput + i % kOutputs;
    if (row >= p.count || output >= p.outputs) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shares[w][row][i % kOutputs];
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
