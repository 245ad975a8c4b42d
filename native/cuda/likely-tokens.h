// The likeliest tokens of one row by rank or by weight: which bins a threshold may lie in
// (likelihood-bins.h), the tokens in them, and the threshold itself, found by halving.
#pragma once

#include "likelihood-bins.h"

namespace perigee {

constexpr int kCandidatesMax = 2048;

/// Tokens that are looked at one by one, in no order.
struct Candidates {
  uint32_t orders[kCandidatesMax];
  int tokens[kCandidatesMax];
  int count;  // of all there are, which may be more than there is room for

  __device__ bool fit() const { return count <= kCandidatesMax; }

  __device__ void add(uint32_t order, int token) {
    const int place = atomicAdd(&count, 1);
    if (place >= kCandidatesMax) return;
    orders[place] = order;
    tokens[place] = token;
  }

  /// Calls `visit(order, token)` for each, all threads together. They fit.
  template <typename Visit>
  __device__ void each(const Visit& visit) const {
    for (int i = threadIdx.x; i < count; i += blockDim.x) visit(orders[i], tokens[i]);
  }
};

/// The largest number in [low, high] for which `holds`, which every smaller one must, too; `low`
/// where none does. `holds` gives all threads the same.
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
