// Sums over all threads of a block.
#pragma once

#include "packed-rows.h"

namespace perigee {

/// Sum over the lanes of a warp, always in the same order.
__device__ __forceinline__ float warpSum(float value) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  return value;
}

/// The sum of `value` over all threads, returned to each of them. `scratch`: 32 floats of shared
/// memory, free again on return. The order of additions depends only on the block size, so a row's
/// sum does not depend on the other rows.
__device__ __forceinline__ float blockSum(float value, float* scratch) {
  value = warpSum(value);
  const int warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();

  const float sum = warpSum(threadIdx.x % kWarp < warps ? scratch[threadIdx.x % kWarp] : 0.0f);
  __syncthreads();
  return sum;
}

/// Consecutive sums of one block. Two scratch buffers alternate, so each sum needs only one
/// barrier: a thread reads a buffer before it passes the next sum's barrier, and only after that
/// barrier is the buffer overwritten. The order of additions is that of blockSum.
class BlockSums {
 public:
  /// `scratch`: 64 floats of shared memory.
  __device__ explicit BlockSums(float* scratch) : scratch_(scratch) {}

  __device__ __forceinline__ float add(float value) {
    float* const parts = scratch_ + kWarp * turn_;
    turn_ ^= 1;
    value = warpSum(value);
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    return warpSum(lane < static_cast<int>(blockDim.x) / kWarp ? parts[lane] : 0.0f);
  }

 private:
  float* scratch_;
  int turn_ = 0;
};

}  // namespace perigee
