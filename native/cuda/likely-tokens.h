// Selection of a row's most likely tokens by rank or by weight: the tokens of the bins in which a
// threshold lies (likelihood-bins.h), and the threshold itself, found by bisection.
#pragma once

#include "likelihood-bins.h"

namespace perigee {

constexpr int kCandidatesMax = 2048;

/// Tokens that are examined one by one, in no order.
struct Candidates {
  uint32_t orders[kCandidatesMax];
  int tokens[kCandidatesMax];
  int count;  // number of candidates, which may exceed kCandidatesMax

  __device__ bool fit() const { return count <= kCandidatesMax; }

  __device__ void add(uint32_t order, int token) {
    const int place = atomicAdd(&count, 1);
    if (place >= kCandidatesMax) return;
    orders[place] = order;
    tokens[place] = token;
  }

  /// Calls `visit(order, token)` for each candidate, all threads together. Requires fit().
  template <typename Visit>
  __device__ void each(const Visit& visit) const {
    for (int i = threadIdx.x; i < count; i += blockDim.x) visit(orders[i], tokens[i]);
  }
};

/// Bisection: the largest number in [low, high] for which `holds`; `low` if there is none. `holds`
/// must be monotonic (true for all smaller numbers) and return the same to all threads.
template <typename Holds>
__device__ __forceinline__ uint32_t largestThat(uint32_t low, uint32_t high, const Holds& holds) {
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace perigee
