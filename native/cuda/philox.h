// Counter-based random numbers, bitwise equal to src/base/rng.ts.
//
// Philox 4x32-10. Source: J. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include "numbers.h"

namespace perigee {

/// Replaces the counter by the four outputs of its Philox block.
__device__ __forceinline__ void philox(uint32_t (&counter)[4], uint32_t seedLow,
                                       uint32_t seedHigh) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t second = uint64_t{0xcd9e8d57u} * counter[2];
    counter[0] = static_cast<uint32_t>(second >> 32) ^ counter[1] ^ seedLow;
    counter[1] = static_cast<uint32_t>(second);
    counter[2] = static_cast<uint32_t>(first >> 32) ^ counter[3] ^ seedHigh;
    counter[3] = static_cast<uint32_t>(first);
    seedLow += 0x9e3779b9u;
    seedHigh += 0xbb67ae85u;
  }
}

/// Uniform in [0, 1), 24 bits, exact: the random number for `position` (lane 0 of uniformAt in
/// src/base/rng.ts).
__device__ __forceinline__ float uniformAt(uint32_t seedLow, uint32_t seedHigh,
                                           uint32_t position) {
  uint32_t counter[4] = {position, 0, 0, 0};
  philox(counter, seedLow, seedHigh);
  return static_cast<float>(counter[0] >> 8) * (1.0f / 16777216.0f);
}

}  // namespace perigee
