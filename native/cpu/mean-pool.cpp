// Mean pooling: one vector per sequence, optionally L2-normalised.
//
// Formula  out[s] = mean of x[starts[s]] .. x[starts[s + 1] - 1];  out[s] /= |out[s]|
// Shapes   x [T, E]; starts [S + 1]; out [S, E]
// Work     one task per sequence
// Bound    memory: 4 bytes read per element. Sums are in f64, since a sequence may have thousands
//          of rows
// Checked  test/contracts/device-ops.ts, meanPool
#include <algorithm>
#include <cmath>

#include "params.h"
#include "thread-pool.h"

namespace perigee {

struct MeanPoolParams {
  ThreadPool* pool;
  float* out;
  const float* x;
  const int32_t* starts;
  Int sequences, columns, normalize;
};

namespace {

// Lower bound of the norm that a vector is divided by: a vector of zeros stays zero.
constexpr double kLengthMin = 1e-12;

void meanOf(float* out, double* sums, const float* rows, int64_t count, int64_t columns) {
  std::fill_n(sums, columns, 0.0);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < columns; ++i) sums[i] += rows[row * columns + i];
  }
  const double scale = count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
  for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<float>(sums[i] * scale);
}

void normalizeRow(float* row, int64_t columns) {
  double squares = 0.0;
  for (int64_t i = 0; i < columns; ++i) squares += double{row[i]} * double{row[i]};
  const double scale = 1.0 / std::max(std::sqrt(squares), kLengthMin);
  for (int64_t i = 0; i < columns; ++i) row[i] = static_cast<float>(row[i] * scale);
}

}  // namespace

PERIGEE_EXPORT void perigee_mean_pool(const MeanPoolParams* params) {
  const MeanPoolParams& p = *params;
  const int64_t columns = p.columns;
  p.pool->parallelFor(p.sequences, [&](int64_t s, int thread) {
    float* const out = p.out + s * columns;
    double* const sums = p.pool->scratch<double>(columns, thread);
    meanOf(out, sums, p.x + p.starts[s] * columns, p.starts[s + 1] - p.starts[s], columns);
    if (p.normalize) normalizeRow(out, columns);
  });
}

}  // namespace perigee
