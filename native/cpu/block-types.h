// Quantised weights as GGUF files have them: blocks of 32 or 256 columns of a row.
//
// A weight is scale * (number - zero) + min, where `number` has 2 to 8 bits. A type with a table
// stores an index of one of 16 signed values instead, and one without an offset signed bytes.
// Scales (and minima) belong to 32 or 16 columns: half-precision numbers, or small integers times a
// half-precision number of the whole block of 256 ("super"), or a power of two.
//
// Source  ggml's block formats (ggml-org/ggml, ggml-quants); MXFP4 of the OCP microscaling
//         formats. src/devices/reference/block-types.ts has the definition.
#pragma once

#include <cstdint>
#include <type_traits>

#include "matrix-limits.h"
#include "simd.h"

namespace perigee {

/// Same order as BLOCK_TYPES in src/devices/block-types.ts.
enum class BlockType : int64_t {
  q4_0 = 0,
  q4_1 = 1,
  q5_0 = 2,
  q5_1 = 3,
  q8_0 = 4,
  q2_k = 5,
  q3_k = 6,
  q4_k = 7,
  q5_k = 8,
  q6_k = 9,
  iq4_nl = 10,
  iq4_xs = 11,
  mxfp4 = 12,
};

constexpr int kBlockTypes = 13;

/// Where a scale comes from.
enum class ScaleKind {
  half,      // f16, one for 32 columns
  super,     // an integer of 8 bits, times the f16 number of 256 columns
  exponent,  // 2^(byte - 128), one for 32 columns
};

/// What a stored number of a column means.
enum class NumberKind {
  offset,     // unsigned; it exceeds its meaning by `zero`
  signedByte,
  table,      // index of one of 16 signed values
};

struct BlockTraits {
  int columns;       // of a block in the file
  int bytes;         // of a block in the file
  int bits;          // of a number
  NumberKind kind;
  int zero;          // what an unsigned number exceeds its meaning by
  int scaleColumns;  // 32 or 16
  ScaleKind scales;
  bool mins;         // a minimum beside each scale

  constexpr int scalesPerGroup() const { return 32 / scaleColumns; }

  /// Bytes of scales and minima that a row has for 32 columns.
  constexpr int scaleBytes() const {
    const int one = scales == ScaleKind::half ? 2 : 1;
    return scalesPerGroup() * one * (mins ? 2 : 1);
  }

  /// Bytes that a row has for 32 columns in a panel (packed-panel.h).
  constexpr int groupBytes() const { return bits * 4 + scaleBytes(); }

  /// Bytes that a row has beside for 256 columns.
  constexpr int superBytes() const {
    return scales != ScaleKind::super ? 0 : mins ? 4 : 2;
  }

  /// Whether bytes are signed before the kernel's own offset (kWeightOffset).
  constexpr bool isSigned() const { return kind != NumberKind::offset; }

  /// The excess of the bytes that are multiplied.
  constexpr int byteZero() const { return isSigned() ? kWeightOffset : zero; }

  /// Largest byte of an unsigned number.
  constexpr int largest() const { return isSigned() ? 255 : (1 << bits) - 1; }
};

constexpr BlockTraits traitsOf(BlockType type) {
  constexpr auto offset = NumberKind::offset, table = NumberKind::table;
  constexpr auto half = ScaleKind::half, super = ScaleKind::super;
  switch (type) {
    case BlockType::q4_0: return {32, 18, 4, offset, 8, 32, half, false};
    case BlockType::q4_1: return {32, 20, 4, offset, 0, 32, half, true};
    case BlockType::q5_0: return {32, 22, 5, offset, 16, 32, half, false};
    case BlockType::q5_1: return {32, 24, 5, offset, 0, 32, half, true};
    case BlockType::q8_0: return {32, 34, 8, NumberKind::signedByte, 0, 32, half, false};
    case BlockType::q2_k: return {256, 84, 2, offset, 0, 16, super, true};
    case BlockType::q3_k: return {256, 110, 3, offset, 4, 16, super, false};
    case BlockType::q4_k: return {256, 144, 4, offset, 0, 32, super, true};
    case BlockType::q5_k: return {256, 176, 5, offset, 0, 32, super, true};
    case BlockType::q6_k: return {256, 210, 6, offset, 32, 16, super, false};
    case BlockType::iq4_nl: return {32, 18, 4, table, 0, 32, half, false};
    case BlockType::iq4_xs: return {256, 136, 4, table, 0, 32, super, false};
    case BlockType::mxfp4: return {32, 17, 4, table, 0, 32, ScaleKind::exponent, false};
  }
  return {};
}

struct BlockTable {
  int8_t values[16];
};

/// The values that the indices of a type with a table stand for, plus `offset` as bytes.
constexpr BlockTable tableOf(BlockType type, int offset) {
  constexpr int nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
  // Twice the values of FP4 (E2M1), so that all are integers; the scales are half as large.
  constexpr int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  BlockTable table = {};
  for (int i = 0; i < 16; ++i) {
    table.values[i] =
        static_cast<int8_t>((type == BlockType::mxfp4 ? fp4[i] : nonlinear[i]) + offset);
  }
  return table;
}

/// 2^(exponent - 128); the two smallest are subnormal.
inline float halfPowerOf(uint8_t exponent) {
  return bitCast<float>(exponent < 2 ? 0x00200000u << exponent
                                     : static_cast<uint32_t>(exponent - 1) << 23);
}

/// Calls `use(std::integral_constant<BlockType, type>)`.
template <typename Use>
auto withBlockType(BlockType type, Use use) {
  switch (type) {
#define PERIGEE_BLOCK_TYPE(name) \
  case BlockType::name: return use(std::integral_constant<BlockType, BlockType::name>());
    PERIGEE_BLOCK_TYPE(q4_0)
    PERIGEE_BLOCK_TYPE(q4_1)
    PERIGEE_BLOCK_TYPE(q5_0)
    PERIGEE_BLOCK_TYPE(q5_1)
    PERIGEE_BLOCK_TYPE(q8_0)
    PERIGEE_BLOCK_TYPE(q2_k)
    PERIGEE_BLOCK_TYPE(q3_k)
    PERIGEE_BLOCK_TYPE(q4_k)
    PERIGEE_BLOCK_TYPE(q5_k)
    PERIGEE_BLOCK_TYPE(q6_k)
    PERIGEE_BLOCK_TYPE(iq4_nl)
    PERIGEE_BLOCK_TYPE(iq4_xs)
    PERIGEE_BLOCK_TYPE(mxfp4)
#undef PERIGEE_BLOCK_TYPE
  }
  return use(std::integral_constant<BlockType, BlockType::q8_0>());
}

}  // namespace perigee
