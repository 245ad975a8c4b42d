// GEMM on f32 units: out = x W^T + bias.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], optionally added to out
// Shapes   x [T, K] and weight [N, K] of one format, bias [N] f32, out [T, N] f32
// Work     one warp per kWarpOutputs outputs and up to 8 rows; blockIdx.y counts groups of 8 rows
// Bound    up to 8 rows, memory: the weights, read once. More rows: the f32 units and L2, since
//          weights are read once per 8 rows. bf16 also has linear-stream.cu, linear-few.cu and
//          cuBLASLt, many rows of i8 have linear-i8.cu (ops/linear.ts chooses)
// Checked  bench/gpu/smoke.mjs, linear
//
// A row's bits do not depend on the other rows (linear-rows.h).
#include "linear-params.h"
#include "linear-rows.h"

namespace perigee {

namespace {

template <typename Chunks>
__device__ void multiply(const LinearParams& p) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int output = (static_cast<int>(blockIdx.x) * kLinearWarps + warp) * kWarpOutputs;
  const int first = static_cast<int>(blockIdx.y) * kLinearRows;
  if (output >= p.outputs) return;
  const int rows = min(kLinearRows, p.count - first);
  linearTile<Chunks>(
      p.weight, output, p.outputs, rows, [&](int r) { return p.x.row(first + r); },
      [&](int r, int n, float sum) { p.store(first + r, n, sum); });
}

}  // namespace

// One kernel per format, so that each uses only the registers it needs.
PERIGEE_KERNEL __launch_bounds__(kLinearWarps * kWarp)
perigee_linear_f32(const __grid_constant__ LinearParams p) {
  joinStream();
  if (p.weight.columns % 4 == 0) {
    multiply<F32Chunks<4>>(p);
  } else {
    multiply<F32Chunks<1>>(p);
  }
}

PERIGEE_KERNEL __launch_bounds__(kLinearWarps * kWarp)
perigee_linear_bf16(const __grid_constant__ LinearParams p) {
  joinStream();
  multiply<Bf16Chunks>(p);
}

PERIGEE_KERNEL __launch_bounds__(kLinearWarps * kWarp)
perigee_linear_i8(const __grid_constant__ LinearParams p) {
  joinStream();
  multiply<I8Chunks>(p);
}

}  // namespace perigee
