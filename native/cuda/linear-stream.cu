// GEMM of up to 16 bf16 rows in a decode step, Hopper and later: out = x W^T + bias.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], optionally added to out
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32; T <= 8 or 16
// Work     linear-stream.h: adjacent rows of the matrix, one block per SM
// Bound    memory: 2 * N * K bytes
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/linear-stream.test.ts
#include "linear-params.h"
#include "linear-stream.h"

namespace perigee {

struct LinearStreamParams {
  StreamMaps maps;
  StreamBoxes boxes;
  StreamRows rows;
  LinearParams linear;
};

namespace {

struct LinearJob {
  const LinearParams& p;
  StreamBoxes boxes;
  StreamRows rows;
  int count;

  __device__ explicit LinearJob(const LinearStreamParams& params)
      : p(params.linear), boxes(params.boxes), rows(params.rows), count(params.linear.count) {}

  __device__ StreamSource source() const {
    return {(p.outputs + kBoxRows - 1) / kBoxRows, p.weight.columns, 1, boxes, rows};
  }

  __device__ void finish(int unit, int units, const PassSums& sums) const {
    const int width = units * kBoxRows;
    for (int i = threadIdx.x; i < count * width; i += kStreamThreads) {
      const int output = unit * kBoxRows + i % width;
      if (output < p.outputs) p.store(i / width, output, sums.at(i / width, i % width));
    }
  }
};

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kStreamBlockThreads, 1)
perigee_linear_stream_8(const __grid_constant__ LinearStreamParams p) {
  streamWeights<1>(LinearJob(p), p.maps);
}

PERIGEE_KERNEL __launch_bounds__(kStreamBlockThreads, 1)
perigee_linear_stream_16(const __grid_constant__ LinearStreamParams p) {
  streamWeights<2>(LinearJob(p), p.maps);
}

}  // namespace perigee
