// Packed layout of quantised weights: the panels of matrix.h, with the numbers of 2 to 8 bits that
// files have.
//
// K columns · R = kPanelRows rows of a panel
//
//   panel      for each 256 columns: [scales of 256 columns], then for each 32 of them a group
//   super      [R] f16 scale ([R] f16 min), types with super scales only
//   group      [words][R] u32 of numbers, then scales (then minima) of 32 or twice 16 columns:
//              [R] f16, or [R] bytes
//
// A K step is 4 columns, one byte each, in the lanes of the panel's rows. Words of a group, b the
// byte and s the step (0 to 7):
//   8 bits   word s:           the byte itself; signed ones plus kWeightOffset
//   4 bits   word s % 4:       low nibble of steps 0 to 3, high nibble of 4 to 7
//   5, 6     as 4 bits, then 1 or 2 words of the bits above: bit s of byte b, or bits 2 * (s % 4)
//            of byte b of word s / 4
//   2 bits   word s / 4:       bits 2 * (s % 4) of byte b
//   3 bits   as 2 bits, then a word whose byte b has the highest bit of step s as bit s
// So a word that is read serves up to 8 steps, and numbers take as many bits as in the file. Small
// scales take a byte each: Q4_K and Q5_K have 3 % more bytes than the file, Q2_K 19 %.
#pragma once

#include "block-types.h"
#include "matrix-limits.h"

namespace perigee {

/// Bytes of one panel, a multiple of 64.
constexpr int64_t packedPanelBytes(const BlockTraits& traits, int64_t columns) {
  const int64_t groups = (columns + kBlockColumns - 1) / kBlockColumns;
  const int64_t supers = (columns + kSuperColumns - 1) / kSuperColumns;
  const int64_t bytes = groups * traits.groupBytes() + supers * traits.superBytes();
  return (bytes * kPanelRows + 63) / 64 * 64;
}

inline U32 loadWords(const uint32_t* from) {
  U32 words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

/// The bytes of a table of 16 at the indices in the bytes of `at`.
inline U32 lookUp(const int8_t* table, U32 at) {
#if defined(__AVX512F__)
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return bitCast<U32>(_mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(0xffff, values),
                                          bitCast<__m512i>(at)));
#elif defined(__AVX2__)
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return bitCast<U32>(
      _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), bitCast<__m256i>(at)));
#else
  return bitCast<U32>(vqtbl1q_s8(vld1q_s8(table), bitCast<uint8x16_t>(at)));
#endif
}

/// What a kernel has to know of a panel at compile time, and what rows are packed for it with.
struct PanelShape {
  int largest;  // of unsigned bytes; 255: any, signed ones included
  int scales;   // of a group
  bool mins;

  /// Whether an expanded panel has 16-bit numbers.
  constexpr bool widens() const { return kWidensSigned && largest == 255; }

  /// Words of a row of x for a group, before the words of its columns: for each scale what the
  /// excess of the bytes contributes, negated (i32), then for each minimum the scale of x times the
  /// sum of the columns (f32), then the scale of x.
  constexpr int corrections() const { return scales * (mins ? 2 : 1) + 1; }

  /// Whether bytes that are multiplied have an excess.
  constexpr bool hasExcess() const { return largest < 255 || kWeightOffset > 0; }
};

constexpr PanelShape shapeOf(const BlockTraits& traits) {
  return {traits.largest(), traits.scalesPerGroup(), traits.mins};
}

/// Reads a panel group by group. All methods but `begin` concern the current group.
template <BlockType kType>
class PackedSource {
 public:
  static constexpr BlockTraits kTraits = traitsOf(kType);
  static constexpr PanelShape kShape = shapeOf(kTraits);
  static constexpr bool kWide = false;
  static constexpr int kSteps = kBlockSteps;
  static constexpr int64_t kGroupBytes = kTraits.groupBytes() * kPanelRows;

  explicit PackedSource(const uint32_t* panel)
      : at_(reinterpret_cast<const uint8_t*>(panel)) {}

  /// Moves on to `group`; groups in their order, from 0 on.
  void begin(int64_t group) {
    if (group > 0) at_ += kTraits.groupBytes() * kPanelRows;
    if constexpr (kTraits.scales == ScaleKind::super) {
      if (group % (kSuperColumns / kBlockColumns) != 0) return;
      const auto* const halves = reinterpret_cast<const uint16_t*>(at_);
      for (int v = 0; v < kPanelVectors; ++v) {
        scales_[v] = loadF16(halves + v * kLanes);
        if constexpr (kTraits.mins) mins_[v] = -loadF16(halves + kPanelRows + v * kLanes);
      }
      at_ += kTraits.superBytes() * kPanelRows;
    }
  }

  /// From the panel's beginning to the current group.
  int64_t bytesFrom(const uint32_t* panel) const {
    return at_ - reinterpret_cast<const uint8_t*>(panel);
  }

  /// The bytes of a step of vector `v`, unsigned and in excess by `byteZero`, or signed where that
  /// is kWeightOffset.
  U32 step(int step, int v) const {
    const auto* const words = reinterpret_cast<const uint32_t*>(at_) + v * kLanes;
    if constexpr (kTraits.bits == 8) return loadWords(words + step * kPanelRows);
    if constexpr (kTraits.bits < 4) {
      U32 number = loadWords(words + step / 4 * kPanelRows) >> (step % 4 * 2) & 0x03030303u;
      if constexpr (kTraits.bits == 3) {
        number |= (loadWords(words + 2 * kPanelRows) >> step & 0x01010101u) << 2;
      }
      return number;
    }
    U32 number = loadWords(words + step % 4 * kPanelRows) >> (step < 4 ? 0 : 4) & 0x0f0f0f0fu;
    if constexpr (kTraits.bits == 5) {
      number |= (loadWords(words + 4 * kPanelRows) >> step & 0x01010101u) << 4;
    }
    if constexpr (kTraits.bits == 6) {
      const U32 above = loadWords(words + (4 + step / 4) * kPanelRows);
      number |= (above >> (step % 4 * 2) & 0x03030303u) << 4;
    }
    if constexpr (kTraits.kind == NumberKind::table) return lookUp(kTable.values, number);
    return number;
  }

  /// Scales of the columns that share the `sub`-th scale of the group.
  F32 scale(int sub, int v) const {
    const uint8_t* const from = scalesAt();
    if constexpr (kTraits.scales == ScaleKind::half) {
      return loadF16(reinterpret_cast<const uint16_t*>(from) + v * kLanes);
    } else if constexpr (kTraits.scales == ScaleKind::super) {
      // Types with minima have unsigned scales.
      return toFloat(loadBytes<!kTraits.mins>(from + sub * kPanelRows + v * kLanes)) * scales_[v];
    } else {
      return loadPowers(from + v * kLanes);
    }
  }

  /// Minima of the same columns, to be added; only for types that have some.
  F32 min(int sub, int v) const {
    const uint8_t* const from =
        scalesAt() + kTraits.scaleBytes() / 2 * kPanelRows;
    if constexpr (kTraits.scales == ScaleKind::half) {
      return loadF16(reinterpret_cast<const uint16_t*>(from) + v * kLanes);
    } else {
      return toFloat(loadBytes<false>(from + sub * kPanelRows + v * kLanes)) * mins_[v];
    }
  }

 private:
  const uint8_t* scalesAt() const { return at_ + kTraits.bits * 4 * kPanelRows; }

  static F32 loadPowers(const uint8_t* from) {
    const U32 exponents = bitCast<U32>(loadBytes<false>(from));
    const U32 least = {};
    const U32 subnormal = (least + 0x00200000u) << (exponents & 1u);
    return bitCast<F32>(exponents < 2u ? subnormal : (exponents - 1u) << 23);
  }

  static constexpr BlockTable kTable = tableOf(kType, kWeightOffset);

  const uint8_t* at_;
  F32 scales_[kPanelVectors] = {};
  F32 mins_[kPanelVectors] = {};
};

}  // namespace perigee
