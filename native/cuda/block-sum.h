// Sums over all threads of a block.
#pragma once

#include "packed-rows.h"

namespace perigee {

/// The sum of every thread's `value`, given to all of them. `scratch`: 32 floats of shared memory,
/// free again when the call returns. The order of the additions depends on the block's size alone,
/// so a row has one sum whatever rows are beside it.
__device__ __forceinline__ float blockSum(float value, float* scratch) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  const int warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();

  float sum = threadIdx.x % kWarp < warps ? scratch[threadIdx.x % kWarp] : 0.0f;
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  }
  __syncthreads();
  return sum;
}

}  // namespace perigee
