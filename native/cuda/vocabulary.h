// Rows of logits: shared code of sampling and log-probabilities.
//
// Weights exp(logit - max) are integers in units of 2^-44 (fixed point). So their sums are exact
// and the same in any order: by atomics, in parts, by any number of blocks. The sum over a
// vocabulary of 2^19 tokens fits 64 bits. The rounding error is below 2^-45 of the most likely
// token's weight.
#pragma once

#include "packed-rows.h"

namespace perigee {

/// Same as VOCABULARY_THREADS in src/devices/cuda/ops/vocabulary.ts.
constexpr int kVocabularyThreads = 1024;
constexpr float kWeightUnits = 17592186044416.0f;  // 2^44

/// Loads in flight per thread: 32 KiB for a block of 1024 threads. L2's latency times its bandwidth
/// per SM needs about 30 KiB.
constexpr int kLogitsAtOnce = 8;

/// Maps floats to integers of the same order; NaN sorts below all others, and -0 equals 0.
__device__ __forceinline__ uint32_t orderOf(float value) {
  if (value != value) return 0;
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The float of an order that is not that of NaN.
__device__ __forceinline__ float floatOf(uint32_t order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

/// Weight of a logit, at most the row's largest; 0 for NaN.
__device__ __forceinline__ uint64_t weightOf(float value, float max) {
  return value == value ? __float2ull_rn(expf(value - max) * kWeightUnits) : 0;
}

/// Tie-breaker among equal logits: lower ids are better.
__device__ __forceinline__ uint32_t placeOf(int token) {
  return 0xffffffffu - static_cast<uint32_t>(token);
}

/// Sort key by falling logit, then rising id; larger is better. 0 means no token.
__device__ __forceinline__ uint64_t rankingOf(uint32_t order, int token) {
  return (static_cast<uint64_t>(order) << 32) | placeOf(token);
}
__device__ __forceinline__ int tokenOf(uint64_t ranking) {
  return static_cast<int>(0xffffffffu - static_cast<uint32_t>(ranking));
}

/// Tokens [start, end) of a row.
struct Slice {
  int start;
  int end;
};

/// Slice number `part` of `parts` slices of a row; some may be empty.
__device__ __forceinline__ Slice sliceOf(int tokens, int part, int parts) {
  const int width = static_cast<int>(padTo((tokens + parts - 1) / parts, kWarp));
  return {min(part * width, tokens), min((part + 1) * width, tokens)};
}

/// Calls `visit(token, logit)` for each token of a slice. `step` threads do it together; this
/// thread is number `index` of them.
template <typename Visit>
__device__ __forceinline__ void walkTogether(const float* logits, Slice slice, int index, int step,
                                             const Visit& visit) {
  for (int first = slice.start + index; first < slice.end; first += kLogitsAtOnce * step) {
    float values[kLogitsAtOnce];
#pragma unroll
    for (int i = 0; i < kLogitsAtOnce; ++i) {
      const int token = first + i * step;
      values[i] = token < slice.end ? logits[token] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLogitsAtOnce; ++i) {
      const int token = first + i * step;
      if (token < slice.end) visit(token, values[i]);
    }
  }
}

/// The same with all threads of the block.
template <typename Visit>
__device__ __forceinline__ void walk(const float* logits, Slice slice, const Visit& visit) {
  walkTogether(logits, slice, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), visit);
}

/// Calls `visit(first, logits)` for every four consecutive tokens of a slice whose start is a
/// multiple of four; NaN stands for tokens behind its end. All threads of the block call it.
template <typename Visit>
__device__ __forceinline__ void walkFours(const float* logits, Slice slice, const Visit& visit) {
  constexpr int kFours = kLogitsAtOnce / 4;
  const bool isAligned = reinterpret_cast<uint64_t>(logits) % sizeof(float4) == 0;
  const int step = 4 * static_cast<int>(blockDim.x);
  for (int start = slice.start + 4 * static_cast<int>(threadIdx.x); start < slice.end;
       start += kFours * step) {
    float values[kFours][4];
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int first = start + i * step;
      if (isAligned && first + 4 <= slice.end) {
        const float4 four = *reinterpret_cast<const float4*>(logits + first);
        values[i][0] = four.x;
        values[i][1] = four.y;
        values[i][2] = four.z;
        values[i][3] = four.w;
        continue;
      }
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const int token = first + lane;
        values[i][lane] = token < slice.end ? logits[token] : notANumber();
      }
    }
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if (start + i * step < slice.end) visit(start + i * step, values[i]);
    }
  }
}

/// Reduces `value` over all threads in pairs and returns the result to each. `scratch`: kWarp
/// numbers in shared memory, free again on return. The block has at most kWarp whole warps, and 0
/// is neutral for `combine`.
template <typename Combine>
__device__ __forceinline__ uint64_t blockReduce(uint64_t value, uint64_t* scratch,
                                                const Combine& combine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (lane == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  uint64_t all = lane < static_cast<int>(blockDim.x) / kWarp ? scratch[lane] : 0;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    all = combine(all, __shfl_xor_sync(0xffffffffu, all, step));
  }
  __syncthreads();
  return all;
}

__device__ __forceinline__ uint64_t blockSum(uint64_t value, uint64_t* scratch) {
  return blockReduce(value, scratch, [](uint64_t a, uint64_t b) { return a + b; });
}

__device__ __forceinline__ uint64_t blockMax(uint64_t value, uint64_t* scratch) {
  return blockReduce(value, scratch, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

/// Inclusive prefix sum of `value` over the threads of the block. `scratch` as above.
__device__ __forceinline__ uint64_t blockRunningSum(uint64_t value, uint64_t* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t other = __shfl_up_sync(0xffffffffu, value, step);
    value += lane >= step ? other : 0;
  }
  if (lane == kWarp - 1) scratch[warp] = value;
  __syncthreads();
  uint64_t before = lane < warp ? scratch[lane] : 0;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    before += __shfl_xor_sync(0xffffffffu, before, step);
  }
  __syncthreads();
  return before + value;
}

/// Where a running sum crosses a bound: the first index at which it does, and the sum before it.
struct Crossing {
  int index;
  uint64_t before;
};

/// Maximum number of amounts for findCrossing.
constexpr int kAmountsMax = 2 * kVocabularyThreads;

/// The first of `count` indices for which `reaches(sum of amountAt(0 .. index))`; `count` if there
/// is none. `reaches` must be monotonic. `found` is shared memory. All threads of a block of
/// kVocabularyThreads call it.
template <typename AmountAt, typename Reaches>
__device__ __forceinline__ Crossing findCrossing(int count, const AmountAt& amountAt,
                                                 const Reaches& reaches, Crossing& found,
                                                 uint64_t* scratch) {
  const int first = 2 * static_cast<int>(threadIdx.x);
  const uint64_t a = first < count ? amountAt(first) : 0;
  const uint64_t b = first + 1 < count ? amountAt(first + 1) : 0;
  if (threadIdx.x == 0) found = {count, 0};
  const uint64_t end = blockRunningSum(a + b, scratch);
  const uint64_t start = end - a - b;
  if (first < count && (first == 0 || !reaches(start))) {
    if (reaches(start + a)) {
      found = {first, start};
    } else if (first + 1 < count && reaches(end)) {
      found = {first + 1, start + a};
    }
  }
  __syncthreads();
  const Crossing crossing = found;
  __syncthreads();
  return crossing;
}

/// The best token whose ranking is below `below`; 0 if there is none. All threads call it.
__device__ __forceinline__ uint64_t bestBelow(uint64_t below, const float* logits, Slice slice,
                                              uint64_t* scratch) {
  uint64_t best = 0;
  walk(logits, slice, [&](int token, float value) {
    const uint64_t ranking = rankingOf(orderOf(value), token);
    if (ranking < below && ranking > best) best = ranking;
  });
  return blockMax(best, scratch);
}

}  // namespace perigee
