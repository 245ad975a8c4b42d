// Blocks of a file taken apart into numbers and scales (block-types.h). Layouts: ggml's block_*
// structures, little-endian.
#pragma once

#include "block-types.h"

namespace perigee {

/// One block. `numbers` are those of the panel: of a signed byte its bits, of a table the index.
struct DecodedBlock {
  uint8_t numbers[256];
  uint16_t scale = 0, min = 0;  // f16: of the block
  uint8_t scales[16] = {};      // super and exponent: of 32 or 16 columns each, as bits of a byte
  uint8_t mins[16] = {};
};

inline uint16_t halfAt(const uint8_t* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  return half;
}

/// 16 bytes of nibbles: the low ones are columns 0 to 15, the high ones 16 to 31.
inline void takeNibbles(const uint8_t* bytes, uint8_t* numbers) {
  for (int i = 0; i < 16; ++i) {
    numbers[i] = bytes[i] & 15;
    numbers[16 + i] = bytes[i] >> 4;
  }
}

/// 32 bits above the nibbles.
inline void addFifthBits(const uint8_t* bytes, uint8_t* numbers) {
  uint32_t bits;
  std::memcpy(&bits, bytes, 4);
  for (int i = 0; i < 32; ++i) numbers[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

/// 8 scales and 8 minima of 6 bits in 12 bytes.
inline void takeSixBits(const uint8_t* bytes, DecodedBlock& block) {
  for (int i = 0; i < 4; ++i) {
    block.scales[i] = bytes[i] & 63;
    block.mins[i] = bytes[i + 4] & 63;
    block.scales[i + 4] = static_cast<uint8_t>((bytes[i + 8] & 15) | bytes[i] >> 6 << 4);
    block.mins[i + 4] = static_cast<uint8_t>(bytes[i + 8] >> 4 | bytes[i + 4] >> 6 << 4);
  }
}

/// 128 bytes: of each 32 the low nibbles are 32 columns, the high ones the next 32.
inline void takeLongNibbles(const uint8_t* bytes, uint8_t* numbers) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    for (int i = 0; i < 32; ++i) {
      numbers[64 * chunk + i] = bytes[32 * chunk + i] & 15;
      numbers[64 * chunk + 32 + i] = bytes[32 * chunk + i] >> 4;
    }
  }
}

/// 64 bytes of pairs of bits: bits 2j of 32 bytes are 32 columns, four times in 128.
inline void takeBitPairs(const uint8_t* bytes, uint8_t* numbers) {
  for (int i = 0; i < 256; ++i) {
    numbers[i] = bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
  }
}

/// Blocks of 32 columns.
template <BlockType kType>
void decodeSmall(const uint8_t* from, DecodedBlock& block) {
  uint8_t* const numbers = block.numbers;
  constexpr BlockTraits traits = traitsOf(kType);
  if constexpr (kType == BlockType::mxfp4) {
    block.scales[0] = from[0];
    takeNibbles(from + 1, numbers);
    return;
  }
  block.scale = halfAt(from);
  if constexpr (traits.mins) block.min = halfAt(from + 2);
  constexpr int above = traits.mins ? 4 : 2;
  if constexpr (traits.bits == 8) {
    std::memcpy(numbers, from + above, 32);
  } else if constexpr (traits.bits == 5) {
    takeNibbles(from + above + 4, numbers);
    addFifthBits(from + above, numbers);
  } else {
    takeNibbles(from + above, numbers);
  }
}

inline void decodeQ2K(const uint8_t* from, DecodedBlock& block) {
  for (int i = 0; i < 16; ++i) {
    block.scales[i] = from[i] & 15;
    block.mins[i] = from[i] >> 4;
  }
  takeBitPairs(from + 16, block.numbers);
  block.scale = halfAt(from + 80);
  block.min = halfAt(from + 82);
}

inline void decodeQ3K(const uint8_t* from, DecodedBlock& block) {
  takeBitPairs(from + 32, block.numbers);
  for (int i = 0; i < 256; ++i) {
    block.numbers[i] |= static_cast<uint8_t>((from[i % 32] >> (i / 32) & 1) << 2);
  }
  const uint8_t* const bits = from + 96;
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? bits[i] & 15 : bits[i - 8] >> 4;
    const int high = bits[8 + i % 4] >> (i / 4 * 2) & 3;
    block.scales[i] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  block.scale = halfAt(from + 108);
}

inline void decodeQ4K(const uint8_t* from, DecodedBlock& block) {
  block.scale = halfAt(from);
  block.min = halfAt(from + 2);
  takeSixBits(from + 4, block);
  takeLongNibbles(from + 16, block.numbers);
}

inline void decodeQ5K(const uint8_t* from, DecodedBlock& block) {
  block.scale = halfAt(from);
  block.min = halfAt(from + 2);
  takeSixBits(from + 4, block);
  takeLongNibbles(from + 48, block.numbers);
  for (int i = 0; i < 256; ++i) {
    block.numbers[i] |= static_cast<uint8_t>((from[16 + i % 32] >> (i / 32) & 1) << 4);
  }
}

inline void decodeQ6K(const uint8_t* from, DecodedBlock& block) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const uint8_t low = from[64 * half + quarter % 2 * 32 + at];
    const uint8_t high = from[128 + 32 * half + at] >> (2 * quarter) & 3;
    block.numbers[i] = static_cast<uint8_t>((quarter < 2 ? low & 15 : low >> 4) | high << 4);
  }
  std::memcpy(block.scales, from + 192, 16);
  block.scale = halfAt(from + 208);
}

inline void decodeIq4Xs(const uint8_t* from, DecodedBlock& block) {
  block.scale = halfAt(from);
  const uint16_t high = halfAt(from + 2);
  for (int i = 0; i < 8; ++i) {
    const int low = from[4 + i / 2] >> (i % 2 * 4) & 15;
    block.scales[i] = static_cast<uint8_t>((low | (high >> (2 * i) & 3) << 4) - 32);
    takeNibbles(from + 8 + 16 * i, block.numbers + 32 * i);
  }
}

template <BlockType kType>
void decodeBlock(const uint8_t* from, DecodedBlock& block) {
  if constexpr (traitsOf(kType).columns == 32) {
    decodeSmall<kType>(from, block);
  } else if constexpr (kType == BlockType::q2_k) {
    decodeQ2K(from, block);
  } else if constexpr (kType == BlockType::q3_k) {
    decodeQ3K(from, block);
  } else if constexpr (kType == BlockType::q4_k) {
    decodeQ4K(from, block);
  } else if constexpr (kType == BlockType::q5_k) {
    decodeQ5K(from, block);
  } else if constexpr (kType == BlockType::q6_k) {
    decodeQ6K(from, block);
  } else {
    static_assert(kType == BlockType::iq4_xs, "all types are decoded");
    decodeIq4Xs(from, block);
  }
}

}  // namespace perigee
