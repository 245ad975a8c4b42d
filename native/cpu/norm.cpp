// RMS norm and layer norm, fused with the residual addition.
//
// Formula  x += delta;  rms: out = x / sqrt(mean(x^2) + eps) * (w + offset)
//          layer: out = (x - mean) / sqrt(variance + eps) * (w + offset) + bias
// Shapes   x, delta, out [T, E]; w, bias [E]
// Work     tasks of consecutive rows
// Bound    memory: 8 bytes read and 4 written per element of the residual stream, and the output
// Checked  test/contracts/device-ops.ts, norm
#include <cmath>

#include "activation.h"
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct NormParams {
  ThreadPool* pool;
  void* out;
  Int outFormat;
  float* x;
  const float* delta;  // null: none
  const float* weight;
  const float* bias;  // null: none
  Int layer;          // 0: rms
  Int count, columns;
  Float epsilon, weightOffset;
};

namespace {

void addRow(float* x, const float* delta, int64_t columns) {
  forLanes(columns, [&](int64_t i, int lanes) {
    storeLanes(x + i, loadLanes(x + i, lanes) + loadLanes(delta + i, lanes), lanes);
  });
}

float meanOf(const float* x, int64_t columns) {
  F32 sums = {};
  forLanes(columns, [&](int64_t i, int lanes) { sums += loadLanes(x + i, lanes); });
  return sum(sums) / static_cast<float>(columns);
}

/// Mean of (x - center)^2.
float spreadOf(const float* x, int64_t columns, float center) {
  const int64_t whole = columns / kLanes * kLanes;
  F32 sums = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const F32 difference = load(x + i) - center;
    sums = fma(difference, difference, sums);
  }
  float squares = sum(sums);
  for (int64_t i = whole; i < columns; ++i) squares += (x[i] - center) * (x[i] - center);
  return squares / static_cast<float>(columns);
}

}  // namespace

PERIGEE_EXPORT void perigee_norm(const NormParams* params) {
  const NormParams& p = *params;
  const int64_t columns = p.columns;
  const float offset = p.weightOffset;
  const ActivationWriter writer(p.out, formatOf(p.outFormat), columns);

  parallelRows(*p.pool, p.count, columns, [&](int64_t row, int thread) {
    float* const x = p.x + row * columns;
    if (p.delta != nullptr) addRow(x, p.delta + row * columns, columns);
    const float center = p.layer ? meanOf(x, columns) : 0.0f;
    const float scale = 1.0f / std::sqrt(spreadOf(x, columns, center) + p.epsilon);

    float* const out = writer.begin(row, p.pool->scratch<float>(columns, thread));
    forLanes(columns, [&](int64_t i, int lanes) {
      const F32 weight = loadLanes(p.weight + i, lanes) + offset;
      F32 y = (loadLanes(x + i, lanes) - center) * scale * weight;
      if (p.bias != nullptr) y += loadLanes(p.bias + i, lanes);
      storeLanes(out + i, y, lanes);
    });
    writer.finish(row, out);
  });
}

}  // namespace perigee
