// A row's tokens by how far they are below its largest logit, in bins of 1/64: how many each has
// and what they weigh. Sums over bins say where a threshold lies, up to one bin; those few tokens
// are then looked at one by one.
//
// What is 32 or more below weighs nothing (e^-32 is less than half of 2^-44); all that is in the
// last bin.
#pragma once

#include "vocabulary.h"

namespace perigee {

constexpr int kBins = 2048;
constexpr float kBinsPerUnit = 64.0f;
constexpr int kLastBin = kBins - 1;
static_assert(kBins <= kAmountsMax, "a thread has two bins");

/// Never falls where the value falls. The last one too where `max` is infinite.
__device__ __forceinline__ int binOf(float value, float max) {
  const float distance = (max - value) * kBinsPerUnit;
  return distance < static_cast<float>(kLastBin) ? static_cast<int>(distance) : kLastBin;
}

/// Bins in shared memory. Weights are two words each: shared memory adds 32 bits at once.
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

  /// Exact: of all that add to a bin, those whose low words overflow it carry.
  __device__ void addWeight(int bin, uint64_t weight) {
    const uint32_t word = static_cast<uint32_t>(weight);
    const uint32_t before = atomicAdd(&low[bin], word);
    const uint32_t carry = before + word < word ? 1u : 0u;
    const uint32_t rest = static_cast<uint32_t>(weight >> 32) + carry;
    if (rest != 0) atomicAdd(&high[bin], rest);
  }
};

/// Parts that a row's blocks add to. Zeros before the first (best-tokens.cu). Same as ROW_STATE in
/// src/devices/cuda/ops/vocabulary.ts.
constexpr int kPartsMax = 32;
struct RowState {
  uint64_t weights[kBins];
  uint32_t counts[kBins];
  uint64_t sums[kPartsMax];    // of each part
  uint64_t larger[kPartsMax];  // of each part
  uint32_t arrived;            // parts that are done
  uint32_t unused;
};
static_assert(sizeof(RowState) == 25096, "as in vocabulary.ts");

/// Adds a block's bins to its row's. After a barrier.
__device__ __forceinline__ void addBins(RowState& state, const Bins& bins) {
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (bins.counts[bin] != 0) atomicAdd(&state.counts[bin], bins.counts[bin]);
    const uint64_t weight = bins.weight(bin);
    if (weight != 0) atomicAdd(&state.weights[bin], weight);
  }
}

/// A row's bins, once all of its blocks have added theirs.
__device__ __forceinline__ void loadBins(Bins& bins, const RowState& state) {
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    const uint64_t weight = __ldcg(&state.weights[bin]);
    bins.counts[bin] = __ldcg(&state.counts[bin]);
    bins.low[bin] = static_cast<uint32_t>(weight);
    bins.high[bin] = static_cast<uint32_t>(weight >> 32);
  }
  __syncthreads();
}

/// Whether this block is the last of its row to come here; then it sees what the others wrote. All
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
