// RMS norm and layer norm of rows, with the residual added first.
//
// Formula  x += delta;  rms: x / sqrt(mean(x^2) + eps) * (w + offset)
//          layer: (x - mean) / sqrt(variance + eps) * (w + offset) + bias
// Shapes   x, delta, out [T, E]; w, bias [E]
// Work     a block per row, whose threads keep their columns in registers between the passes; the
//          weights are read while the kernel in front still runs. Rows that are not whole quads, or
//          too long for that, are read again from the cache
// Bound    memory: 8 bytes read and 4 written per element of the stream, and the output
// Checked  bench/gpu/smoke.mjs, norm
#include "block-sum.h"
#include "row-quads.h"

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

namespace {

/// Quads that a thread has room for: `normThreads` of src/devices/cuda/ops/norm.ts counts on it.
constexpr int kQuads = 4;
using Quads = RowQuads<kQuads>;

__device__ float scaleOf(float squares, const NormParams& p) {
  return 1.0f / sqrtf(squares / static_cast<float>(p.out.columns) + p.epsilon);
}

/// Calls `body(x)` for each element of a quad.
template <typename Body>
__device__ __forceinline__ void forEach(float4& quad, const Body& body) {
  body(quad.x);
  body(quad.y);
  body(quad.z);
  body(quad.w);
}

/// x += delta.
__device__ void addResidual(Quads& x, const NormParams& p, int64_t row) {
  const int columns = p.out.columns;
  x.load(p.x + row * columns, columns);
  if (p.delta == nullptr) return;
  Quads delta;
  delta.load(p.delta + row * columns, columns);
  Quads::forOwn(columns, [&](int i, int) {
    x.quads[i].x += delta.quads[i].x;
    x.quads[i].y += delta.quads[i].y;
    x.quads[i].z += delta.quads[i].z;
    x.quads[i].w += delta.quads[i].w;
  });
  x.store(p.x + row * columns, columns);
}

__device__ void normQuads(const NormParams& p, float* scratch) {
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;

  // 1. What no kernel writes, ahead of the wait.
  Quads weight;
  weight.load(p.weight, columns);
  waitForPrevious();

  // 2. The residual, and the mean where it counts.
  Quads x;
  addResidual(x, p, row);
  if (p.layer) {
    float sum = 0.0f;
    Quads::forOwn(columns, [&](int i, int) {
      forEach(x.quads[i], [&](float& value) { sum += value; });
    });
    const float center = blockSum(sum, scratch) / static_cast<float>(columns);
    Quads::forOwn(columns, [&](int i, int) {
      forEach(x.quads[i], [&](float& value) { value -= center; });
    });
  }

  // 3. The spread round it, in a pass of its own: squares of large means would cancel.
  float squares = 0.0f;
  Quads::forOwn(columns, [&](int i, int) {
    forEach(x.quads[i], [&](float& value) { squares += value * value; });
  });
  const float scale = scaleOf(blockSum(squares, scratch), p);

  // 4. The output, rounded to its format.
  Quads::forOwn(columns, [&](int i, int column) {
    float4& y = x.quads[i];
    const float4& by = weight.quads[i];
    y.x = y.x * scale * (by.x + p.weightOffset);
    y.y = y.y * scale * (by.y + p.weightOffset);
    y.z = y.z * scale * (by.z + p.weightOffset);
    y.w = y.w * scale * (by.w + p.weightOffset);
    if (p.bias == nullptr) return;
    const float4 bias = *reinterpret_cast<const float4*>(p.bias + column);
    y.x += bias.x;
    y.y += bias.y;
    y.z += bias.z;
    y.w += bias.w;
  });
  x.storePacked(p.out, row);
}

__device__ void normColumns(const NormParams& p, float* scratch) {
  waitForPrevious();
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

  // 2. The spread, and the output.
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    squares += (x[i] - center) * (x[i] - center);
  }
  const float scale = scaleOf(blockSum(squares, scratch), p);
  p.out.store(row, [&](int i) {
    const float y = (x[i] - center) * scale * (p.weight[i] + p.weightOffset);
    return p.bias == nullptr ? y : y + p.bias[i];
  });
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(1024)
perigee_norm(const __grid_constant__ NormParams p) {
  letNextStart();
  __shared__ float scratch[kWarp];
  const int quads = static_cast<int>(padTo(p.out.columns, kGroupColumns)) / kQuad;
  if (p.out.columns % kQuad == 0 && quads <= kQuads * static_cast<int>(blockDim.x)) {
    normQuads(p, scratch);
  } else {
    normColumns(p, scratch);
  }
}

}  // namespace perigee
