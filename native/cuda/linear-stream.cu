// out = x times the transposed weight, plus bias, for up to 32 rows of bf16: a decode step.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to what out holds
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32; T <= 8, 16 or 32
// Work     linear-stream.h: equal stretches of the matrix, a block per multiprocessor
// Bound    memory: 2 * N * K bytes
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/linear-stream.test.ts
#include "linear-params.h"
#include "linear-stream.h"

namespace perigee {

struct LinearStreamParams {
  LinearParams linear;
  StreamRoom room;
};

namespace {

/// A tile is kTileOutputs neighbours.
struct LinearJob {
  const LinearParams& p;
  const PackedRows& x;
  const PackedRows& weight;
  int count;

  __device__ explicit LinearJob(const LinearParams& params)
      : p(params), x(params.x), weight(params.weight), count(params.count) {}

  __device__ int tiles() const { return (p.outputs + kTileOutputs - 1) / kTileOutputs; }

  __device__ const uint8_t* weightRow(int tile, int i) const {
    return weight.row(min(tile * kTileOutputs + i, p.outputs - 1));
  }

  __device__ void finish(int tile, const TileSums& sums) const {
    for (int i = threadIdx.x; i < count * kTileOutputs; i += kStreamThreads) {
      const int output = tile * kTileOutputs + i % kTileOutputs;
      const int row = i / kTileOutputs;
      if (output < p.outputs) p.store(row, output, sums.at(row, i % kTileOutputs));
    }
  }
};

}  // namespace

// Two blocks fit a multiprocessor: the next kernel's waits, full of weights, beside this one's.
PERIGEE_KERNEL __launch_bounds__(kStreamThreads, 2)
perigee_linear_stream_8(const __grid_constant__ LinearStreamParams p) {
  streamWeights<1>(LinearJob(p.linear), p.room);
}

PERIGEE_KERNEL __launch_bounds__(kStreamThreads, 2)
perigee_linear_stream_16(const __grid_constant__ LinearStreamParams p) {
  streamWeights<2>(LinearJob(p.linear), p.room);
}

PERIGEE_KERNEL __launch_bounds__(kStreamThreads, 2)
perigee_linear_stream_32(const __grid_constant__ LinearStreamParams p) {
  streamWeights<4>(LinearJob(p.linear), p.room);
}

}  // namespace perigee
