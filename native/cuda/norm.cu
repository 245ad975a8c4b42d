// RMS norm and layer norm of rows, with the residual added first.
//
// Formula  x += delta;  rms: x / sqrt(mean(x^2) + eps) * (w + offset)
//          layer: (x - mean) / sqrt(variance + eps) * (w + offset) + bias
// Shapes   x, delta, out [T, E]; w, bias [E]
// Work     a block per row; a thread keeps to its own columns until the last pass
// Bound    memory: 8 bytes read and 4 written per element of the stream, and the output
// Checked  bench/gpu/smoke.mjs, norm
#include "block-sum.h"

namespace perigee {

struct NormParams {
  PackedRows out;  // f32 rows may be x itself
  float* x;
  const float* delta;  // null: none
  const float* weight;
  const float* bias;  // null: none
  int layer;          // 0: rms
  float epsilon;
  float weightOffset;
};

PERIGEE_KERNEL perigee_norm(const __grid_constant__ NormParams p) {
  joinStream();
  __shared__ float scratch[kWarp];
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  float* const x = p.x + row * columns;

  // 1. The residual, and what the mean needs.
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    if (p.delta != nullptr) x[i] += p.delta[row * columns + i];
    sum += x[i];
  }
  // The sum's barriers also make every thread's x visible to the others, which the last pass needs.
  const float total = blockSum(sum, scratch);
  const float center = p.layer ? total / static_cast<float>(columns) : 0.0f;

  // 2. The spread round it, in a pass of its own: squares of large means would cancel.
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    squares += (x[i] - center) * (x[i] - center);
  }
  const float spread = blockSum(squares, scratch) / static_cast<float>(columns);
  const float scale = 1.0f / sqrtf(spread + p.epsilon);

  // 3. The output, rounded to its format.
  p.out.store(row, [&](int i) {
    const float y = (x[i] - center) * scale * (p.weight[i] + p.weightOffset);
    return p.bias == nullptr ? y : y + p.bias[i];
  });
}

}  // namespace perigee
