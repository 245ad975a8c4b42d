// out = x times the transposed weight, plus bias, for up to 16 rows of bf16: a decode step.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to what out holds
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32; T <= 8 or 16
// Work     linear-stream.h: neighbouring strips of the matrix, a block per multiprocessor
// Bound    memory: 2 * N * K bytes
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/linear-stream.test.ts
#include "linear-params.h"
#include "linear-stream.h"

namespace perigee {

namespace {

/// A strip is kStripOutputs neighbours.
struct LinearJob {
  const LinearParams& p;
  const PackedRows& x;
  const PackedRows& weight;
  int count;

  __device__ explicit LinearJob(const LinearParams& params)
      : p(params), x(params.x), weight(params.weight), count(params.count) {}

  __device__ int strips() const { return (p.outputs + kStripOutputs - 1) / kStripOutputs; }

  __device__ const uint8_t* weightRow(int strip, int i, bool real) const {
    return weight.row(real ? min(strip * kStripOutputs + i, p.outputs - 1) : 0);
  }

  __device__ void finish(int strip, int strips, const PassSums& sums) const {
    const int width = strips * kStripOutputs;
    for (int i = threadIdx.x; i < count * width; i += kStreamThreads) {
      const int place = i % width;
      const int output = strip * kStripOutputs + place;
      if (output < p.outputs) p.store(i / width, output, sums.at(i / width, place));
    }
  }
};

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kStreamThreads + kWarp, 1)
perigee_linear_stream_8(const __grid_constant__ LinearParams p) {
  streamWeights<1>(LinearJob(p));
}

PERIGEE_KERNEL __launch_bounds__(kStreamThreads + kWarp, 1)
perigee_linear_stream_16(const __grid_constant__ LinearParams p) {
  streamWeights<2>(LinearJob(p));
}

}  // namespace perigee
