// Counter-based random numbers, bitwise equal to src/base/rng.ts.
//
// Philox 4x32-10. Source: J. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <cstdint>

namespace perigee {

/// Uniform in [0, 1), 24 bits: the random number for `position` (lane 0 of uniformAt in
/// src/base/rng.ts).
inline double uniformAt(uint32_t seedLow, uint32_t seedHigh, uint32_t position) {
  uint32_t counter[4] = {position, 0, 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53} * counter[0];
    const uint64_t second = uint64_t{0xcd9e8d57} * counter[2];
    counter[0] = static_cast<uint32_t>(second >> 32) ^ counter[1] ^ seedLow;
    counter[1] = static_cast<uint32_t>(second);
    counter[2] = static_cast<uint32_t>(first >> 32) ^ counter[3] ^ seedHigh;
    counter[3] = static_cast<uint32_t>(first);
    seedLow += 0x9e3779b9;
    seedHigh += 0xbb67ae85;
  }
  return static_cast<double>(counter[0] >> 8) / 16777216.0;
}

}  // namespace perigee
