// GEMMs split into tasks, so that one GEMM or many (the experts of a layer) use all threads.
#pragma once

#include "linear-tile.h"
#include "packed-matrix.h"
#include "params.h"
#include "thread-pool.h"

namespace perigee {

/// out[m, n] = sum over k of x[m, k] * weight[n, k] (+ bias[n]) (+ out[m, n]).
struct LinearJob {
  MatrixLayout layout;  // of the weight: [N, K]
  const uint32_t* weight;
  const uint8_t* x;       // activation rows of the same format
  const int32_t* xRows;   // [M] row of x for each output row, or null: rows 0 to M - 1
  int64_t count;          // M
  float* out;             // [M, N]
  const float* bias;      // [N] or null
  bool accumulate;
  int64_t outColumns;     // distance between rows of out: N, or more for a segment of a matrix
};

/// Appends the job of a whole matrix of any format, one for each of its segments; returns the end.
/// There is room for kSegmentsMax of them.
LinearJob* appendJobs(LinearJob* end, const LinearJob& whole);

struct LinearParams;
PERIGEE_EXPORT void perigee_linear(const LinearParams* params);

/// Has waiting threads read ahead what perigee_linear will read.
void readAhead(const LinearParams& params);

/// Runs all jobs in parallel and returns when they are done.
void runLinearJobs(ThreadPool& pool, const LinearJob* jobs, int64_t jobCount);

}  // namespace perigee
