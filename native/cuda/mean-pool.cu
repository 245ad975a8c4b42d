// Mean pooling: out[s] = mean of a sequence's rows, optionally L2-normalised.
//
// Shapes   x [T, E] f32, starts [S + 1] i32, out [S, E] f32
// Work     one block per sequence
// Bound    memory: each row read once
// Checked  bench/gpu/smoke.mjs, meanPool
#include "block-sum.h"

namespace perigee {

struct MeanPoolParams {
  float* out;
  const float* x;
  const int* starts;
  int columns;
  int normalize;
};

PERIGEE_KERNEL perigee_mean_pool(const __grid_constant__ MeanPoolParams p) {
  joinStream();
  __shared__ float scratch[kWarp];
  const int sequence = blockIdx.x;
  const int start = p.starts[sequence];
  const int end = p.starts[sequence + 1];
  float* const out = p.out + static_cast<int64_t>(sequence) * p.columns;

  // An empty sequence has the mean 0.
  float squares = 0.0f;
  for (int i = threadIdx.x; i < p.columns; i += blockDim.x) {
    float sum = 0.0f;
    for (int row = start; row < end; ++row) sum += p.x[static_cast<int64_t>(row) * p.columns + i];
    const float mean = end > start ? sum / static_cast<float>(end - start) : 0.0f;
    out[i] = mean;
    squares += mean * mean;
  }
  if (!p.normalize) return;

  // Lower bound of the divisor: a vector of zeros stays zero.
  const float length = fmaxf(sqrtf(blockSum(squares, scratch)), 1e-12f);
  for (int i = threadIdx.x; i < p.columns; i += blockDim.x) out[i] /= length;
}

}  // namespace perigee
