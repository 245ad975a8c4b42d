// Histogram of a row's tokens over their distance to the largest logit, in bins of 1/64: number of
// tokens and sum of weights per bin. A scan over the bins locates a threshold up to one bin. Only
// the tokens of that bin are then examined one by one.
//
//    distance max - logit:   0      1/64    2/64    3/64          31.98        -> infinity
//    bins                    |  0   |   1   |   2   |  ...  | 2046 |   2047 (weight 0)      |
//
// Tokens 32 or more below the maximum have weight 0 (e^-32 is less than half of 2^-44) and share
// the last bin.
#pragma once

#include "vocabulary.h"

namespace perigee {

constexpr int kBins = 2048;
constexpr float kBinsPerUnit = 64.0f;
constexpr int kLastBin = kBins - 1;
static_assert(kBins <= kAmountsMax, "a thread has two bins");

/// Monotonic: a smaller value never gets a smaller bin. Returns the last bin if `max` is infinite.
__device__ __forceinline__ int binOf(float value, float max) {
  const float distance = (max - value) * kBinsPerUnit;
  return distance < static_cast<float>(kLastBin) ? static_cast<int>(distance) : kLastBin;
}

/// Bins in shared memory. Weights are split in two words, since shared memory atomics add 32 bits.
struct Bins {
  uint32_t counts[kBins];
  uint32_t low[kBins];
  uint32_t high[kBins];

  __device__ uint64_t weight(int bin) const {
    return (static_cast<uint64_t>(high[bin]) << 32) | low[bin];
  }

  __device__ void clear() {
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
      counts[bin] = low[bin] = high[bin] = 0;
    }
    __syncthreads();
  }

  /// Exact 64-bit addition: a thread whose low word overflows adds the carry to the high word.
  __device__ void addWeight(int bin, uint64_t weight) {
    const uint32_t word = static_cast<uint32_t>(weight);
    const uint32_t before = atomicAdd(&low[bin], word);
    const uint32_t carry = before + word < word ? 1u : 0u;
    const uint32_t rest = static_cast<uint32_t>(weight >> 32) + carry;
    if (rest != 0) atomicAdd(&high[bin], rest);
  }
};

/// Per-row state that the row's blocks accumulate into; cleared by best-tokens.cu. Same layout as
/// ROW_STATE in src/devices/cuda/ops/vocabulary.ts.
constexpr int kPartsMax = 32;
struct RowState {
  uint64_t weights[kBins];
  uint32_t counts[kBins];
  uint64_t sums[kPartsMax];    // per part; in sample the order of its winner's key
  uint64_t larger[kPartsMax];  // per part: logits larger than the chosen one; its winner's place
  uint32_t arrived;            // number of finished parts
  uint32_t unused;
};
static_assert(sizeof(RowState) == 25096, "as in vocabulary.ts");

/// Adds a block's bins to those of its row. Call it after a barrier.
__device__ __forceinline__ void addBins(RowState& state, const Bins& bins) {
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (bins.counts[bin] != 0) atomicAdd(&state.counts[bin], bins.counts[bin]);
    const uint64_t weight = bins.weight(bin);
    if (weight != 0) atomicAdd(&state.weights[bin], weight);
  }
}

/// Loads a row's bins after all of its blocks have added theirs.
__device__ __forceinline__ void loadBins(Bins& bins, const RowState& state) {
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    const uint64_t weight = __ldcg(&state.weights[bin]);
    bins.counts[bin] = __ldcg(&state.counts[bin]);
    bins.low[bin] = static_cast<uint32_t>(weight);
    bins.high[bin] = static_cast<uint32_t>(weight >> 32);
  }
  __syncthreads();
}

/// Whether this block is the last of its row to arrive; if so, it sees what the others wrote. All
/// threads call it; `last` is shared memory.
__device__ __forceinline__ bool arrivesLast(RowState& state, int parts, bool& last) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&state.arrived, 1u) + 1u == static_cast<uint32_t>(parts);
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace perigee
