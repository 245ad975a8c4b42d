// Sums over all threads of a block.
#pragma once

#include "packed-rows.h"

namespace perigee {

/// Over the lanes of a warp, in one order.
__device__ __forceinline__ float warpSum(float value) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  return value;
}

/// The sum of every thread's `value`, given to all of them. `scratch`: 32 floats of shared memory,
/// free again when the call returns. The order of the additions depends on the block's size alone,
/// so a row has one sum whatever rows are beside it.
__device__ __forceinline__ float blockSum(float value, float* scratch) {
  value = warpSum(value);
  const int warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();

  const float sum = warpSum(threadIdx.x % kWarp < warps ? scratch[threadIdx.x % kWarp] : 0.0f);
  __syncthreads();
  return sum;
}

/// Sums of one block, one after the other: a place of their own for two in turn, so that each costs
/// one barrier. Who reads a sum's parts has passed the next one's barrier before they are
/// overwritten. The same additions as above.
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
