// Parameters of the linear kernels.
#pragma once

#include "packed-rows.h"

namespace perigee {

struct LinearParams {
  PackedRows x;
  PackedRows weight;
  float* out;
  const float* bias;  // null: none
  int count;          // T
  int outputs;        // N
  int accumulate;

  /// Epilogue: out[row, output] = sum, plus bias, optionally added to the old value.
  __device__ void store(int row, int output, float sum) const {
    float* const to = out + static_cast<int64_t>(row) * outputs + output;
    const float biased = bias == nullptr ? sum : sum + bias[output];
    *to = accumulate ? *to + biased : biased;
  }
};

}  // namespace perigee
