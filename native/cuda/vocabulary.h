// Rows of logits, a block each: what sampling and log-probabilities share.
//
// Weights exp(logit - max) are counted in units of 2^-44, as whole numbers. Sums of them are exact,
// so they are the same in any order: by atomics, in pieces, for any size of the block. A vocabulary
// of 2^19 tokens fits 64 bits. What is rounded away is less than 2^-45 of the likeliest token.
#pragma once

#include "packed-rows.h"

namespace perigee {

constexpr int kVocabularyThreads = 1024;
constexpr int kVocabularyWarps = kVocabularyThreads / kWarp;
constexpr float kWeightUnits = 17592186044416.0f;  // 2^44

/// Whole numbers in the order of the floats; NaN is below all, and -0 is 0.
__device__ __forceinline__ uint32_t orderOf(float value) {
  if (value != value) return 0;
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The float of an order; what was not NaN.
__device__ __forceinline__ float floatOf(uint32_t order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

/// Of a logit at or below the row's largest one; 0 for NaN.
__device__ __forceinline__ uint64_t weightOf(float value, float max) {
  return value == value ? __float2ull_rn(expf(value - max) * kWeightUnits) : 0;
}

/// Tokens by falling logit, then rising id, as one number; larger is better. 0 stands for nothing.
__device__ __forceinline__ uint64_t rankingOf(float value, int token) {
  const uint32_t place = 0xffffffffu - static_cast<uint32_t>(token);
  return (static_cast<uint64_t>(orderOf(value)) << 32) | place;
}
__device__ __forceinline__ int tokenOf(uint64_t ranking) {
  return static_cast<int>(0xffffffffu - static_cast<uint32_t>(ranking));
}

/// `value` of all threads, combined in pairs; given to all. `scratch`: kWarp numbers in shared
/// memory, free again when the call returns.
template <typename Combine>
__device__ __forceinline__ uint64_t blockReduce(uint64_t value, uint64_t* scratch,
                                                const Combine& combine) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  uint64_t all = scratch[0];
  for (int warp = 1; warp < warps; ++warp) all = combine(all, scratch[warp]);
  __syncthreads();
  return all;
}

__device__ __forceinline__ uint64_t blockSum(uint64_t value, uint64_t* scratch) {
  return blockReduce(value, scratch, [](uint64_t a, uint64_t b) { return a + b; });
}

__device__ __forceinline__ uint64_t blockMax(uint64_t value, uint64_t* scratch) {
  return blockReduce(value, scratch, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

/// The best token whose ranking is below `below`; 0 when there is none. All threads call it.
template <typename ValueAt>
__device__ __forceinline__ uint64_t bestBelow(uint64_t below, int tokens, const ValueAt& valueAt,
                                              uint64_t* scratch) {
  uint64_t best = 0;
  for (int token = threadIdx.x; token < tokens; token += blockDim.x) {
    const uint64_t ranking = rankingOf(valueAt(token), token);
    if (ranking < below && ranking > best) best = ranking;
  }
  return blockMax(best, scratch);
}

}  // namespace perigee
