// The threshold of min_p, top_k and top_p: they keep the tokens whose ranking is at least a bound.
//
// The bins of the row (likelihood-bins.h) locate the k-th token and the end of the nucleus (the
// smallest set of most likely tokens that reaches top_p). Only the tokens of these bins are
// candidates. The tokens of better bins are kept and enter as sums.
#pragma once

#include "likely-tokens.h"

namespace perigee {

/// A row of logits with its temperature and largest scaled logit.
struct ScaledRow {
  const float* logits;
  int tokens;
  float temperature;
  float max;

  __device__ float scaled(float logit) const {
    return temperature == 1.0f ? logit : __fdiv_rn(logit, temperature);
  }
};

/// Filters of a row.
struct Filter {
  uint32_t least;  // min_p: the smallest order (orderOf in vocabulary.h) that is kept
  uint64_t topK;  // 0: off
  float topP;     // 1: off

  __device__ bool ranks() const { return topK > 0; }
  __device__ bool weighs() const { return topP < 1.0f; }
};

/// Bins [first, last] that contain the thresholds. If `first` is kBins, all tokens are kept.
struct ThresholdBins {
  int first;
  int last;
  uint64_t count;   // tokens in better bins
  uint64_t weight;  // weight of better bins
  uint64_t behind;  // weight of the worse bins that top_k keeps
};

struct BoundMemory {
  uint64_t scratch[kWarp];
  Crossing found;
  Bins bins;
  Candidates candidates;
};

/// Fills counts and weights of a slice's tokens, as far as the filter needs them.
__device__ __forceinline__ void fillBins(Bins& bins, const ScaledRow& row, Slice slice,
                                         const Filter& filter) {
  bins.clear();
  walk(row.logits, slice, [&](int, float logit) {
    const float value = row.scaled(logit);
    if (orderOf(value) < filter.least) return;
    const int bin = binOf(value, row.max);
    if (filter.ranks()) atomicAdd(&bins.counts[bin], 1u);
    if (filter.weighs() && bin < kLastBin) bins.addWeight(bin, weightOf(value, row.max));
  });
  __syncthreads();
}

/// Locates the thresholds' bins. Disables top_k if all tokens that it would drop have weight 0.
__device__ __forceinline__ ThresholdBins findThresholdBins(BoundMemory& memory, Filter& filter) {
  const Bins& bins = memory.bins;
  const auto countOf = [&](int bin) { return static_cast<uint64_t>(bins.counts[bin]); };
  const auto weightIn = [&](int bin) { return bins.weight(bin); };
  const auto sumBefore = [&](int end, const auto& amountOf) {
    uint64_t mine = 0;
    for (int bin = threadIdx.x; bin < end; bin += blockDim.x) mine += amountOf(bin);
    return blockSum(mine, memory.scratch);
  };

  // 1. The bin of the k-th token.
  int kth = kBins;
  if (filter.ranks()) {
    const auto reaches = [&](uint64_t count) { return count >= filter.topK; };
    kth = findCrossing(kBins, countOf, reaches, memory.found, memory.scratch).index;
    if (kth >= kLastBin) {
      filter.topK = 0;
      kth = kBins;
    }
  }
  if (!filter.weighs()) {
    if (!filter.ranks()) return {kBins, kBins, 0, 0, 0};
    return {kth, kth, sumBefore(kth, countOf), 0, 0};
  }

  // 2. The first bin in which the nucleus may end. `total` leaves out the k-th token's bin, of
  // which only a part may be kept.
  const uint64_t total = sumBefore(kth, weightIn);
  const double target = static_cast<double>(filter.topP) * static_cast<double>(total);
  const auto reaches = [&](uint64_t weight) { return static_cast<double>(weight) >= target; };
  const Crossing crossing = findCrossing(kBins, weightIn, reaches, memory.found, memory.scratch);
  const int first = crossing.index;
  if (filter.ranks()) return {first, kth, sumBefore(first, countOf), crossing.before, 0};
  return {first, first, 0, crossing.before, total - crossing.before - weightIn(first)};
}

/// How many of `tied` tokens of equal weight `weight` are kept, if all better tokens weigh `above`
/// and the sum must reach `target`; at least one.
__device__ __forceinline__ uint64_t keptTies(uint64_t weight, uint64_t above, double target,
                                             uint64_t tied) {
  if (weight == 0) return 1;
  const double missing = (target - static_cast<double>(above)) / static_cast<double>(weight);
  uint64_t ties = missing > 2.0 ? static_cast<uint64_t>(missing) - 1 : 1;
  while (ties < tied && static_cast<double>(above + ties * weight) < target) ++ties;
  return ties;
}

/// The smallest ranking that is kept. `each(visit(order, token))` visits the candidates with all
/// threads; `thresholds` holds the sums of the tokens above them.
template <typename Each>
__device__ __forceinline__ uint64_t findBound(BoundMemory& memory, const ScaledRow& row,
                                              const Filter& filter,
                                              const ThresholdBins& thresholds, const Each& each) {
  const auto sumOf = [&](const auto& amountOf) {
    uint64_t mine = 0;
    each([&](uint32_t order, int token) { mine += amountOf(order, token); });
    return blockSum(mine, memory.scratch);
  };
  const auto weightFrom = [&](uint32_t least) {
    return thresholds.weight + sumOf([&](uint32_t order, int) {
             return order >= least ? weightOf(floatOf(order), row.max) : uint64_t{0};
           });
  };

  // 1. Range of the candidates' orders.
  uint32_t lowest = 0xffffffffu;
  uint32_t highest = 0;
  each([&](uint32_t order, int) {
    lowest = min(lowest, order);
    highest = max(highest, order);
  });
  lowest = ~static_cast<uint32_t>(blockMax(~lowest, memory.scratch));
  highest = static_cast<uint32_t>(blockMax(highest, memory.scratch));
  uint32_t least = max(lowest, filter.least);

  // 2. The k-th largest.
  if (filter.ranks()) {
    least = largestThat(least, highest, [&](uint32_t middle) {
      const auto isAbove = [&](uint32_t order, int) { return uint64_t{order >= middle}; };
      return thresholds.count + sumOf(isAbove) >= filter.topK;
    });
  }
  if (!filter.weighs()) return static_cast<uint64_t>(least) << 32;

  // 3. The end of the nucleus.
  const double total = static_cast<double>(weightFrom(least) + thresholds.behind);
  const double target = static_cast<double>(filter.topP) * total;
  const uint32_t end = largestThat(least, highest, [&](uint32_t middle) {
    return static_cast<double>(weightFrom(middle)) >= target;
  });

  // 4. Tokens of equal order have equal weight, so a division gives the number that is kept.
  const uint64_t tied = sumOf([&](uint32_t order, int) { return uint64_t{order == end}; });
  const uint64_t weight = weightOf(floatOf(end), row.max);
  const uint64_t above = weightFrom(end) - tied * weight;
  const uint64_t ties = keptTies(weight, above, target, tied);
  const uint64_t bound = static_cast<uint64_t>(end) << 32;
  if (ties >= tied) return bound;
  return bound | largestThat(placeOf(row.tokens - 1), placeOf(0), [&](uint32_t middle) {
           const auto isBefore = [&](uint32_t order, int token) {
             return uint64_t{order == end && placeOf(token) >= middle};
           };
           return sumOf(isBefore) >= ties;
         });
}

}  // namespace perigee
