// Counter-based random numbers, bitwise equal to src/base/rng.ts; a block per lane of a vector.
//
// Philox 4x32-10. Source: J. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <cstdint>

#include "simd.h"

namespace perigee {

/// The four words of kLanes blocks: counters, or what the generator makes of them.
struct PhiloxBlocks {
  U32 words[4];
};

/// Counters of the noise of the four tokens of each block (src/base/gumbel.ts).
inline PhiloxBlocks noiseCounters(uint32_t position, U32 blocks) {
  return {{U32{} + position, blocks, U32{} + 1u, U32{}}};
}

/// Replaces counters by random words.
inline void philox(PhiloxBlocks& blocks, uint32_t seedLow, uint32_t seedHigh) {
  U32* const words = blocks.words;
  for (int round = 0; round < 10; ++round) {
    U32 firstLow, firstHigh, secondLow, secondHigh;
    multiplyWide(words[0], 0xd2511f53, firstLow, firstHigh);
    multiplyWide(words[2], 0xcd9e8d57, secondLow, secondHigh);
    words[0] = secondHigh ^ words[1] ^ seedLow;
    words[1] = secondLow;
    words[2] = firstHigh ^ words[3] ^ seedHigh;
    words[3] = firstLow;
    seedLow += 0x9e3779b9;
    seedHigh += 0xbb67ae85;
  }
}

}  // namespace perigee
