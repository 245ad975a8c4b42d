// GEMMs split into tasks, so that one GEMM or many (the experts of a layer) use all threads.
#pragma once

#include "linear-tile.h"
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
};

/// Runs all jobs in parallel and returns when they are done.
void runLinearJobs(ThreadPool& pool, const LinearJob* jobs, int64_t jobCount);

}  // namespace perigee
