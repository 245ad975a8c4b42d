// Inner step of the attention kernels: one multiply-add of a factor and an operand, per element
// type.
//
// A factor is one element of a query row or one weight, stored as a Word and broadcast to all
// lanes. An operand is a vector of keys or values. bf16 multiplies two neighbouring terms of the
// sum per step: by one instruction with AVX-512 BF16, which needs the factors in bf16 too, else as
// two f32 products.
//
// i8 also multiplies two neighbouring terms per step (attention-products-i8.h): keys and values are
// widened to 16-bit integers, factors are quantised to 16 bits relative to the row's largest, and
// sums are exact. fp8 is widened to f32.
#pragma once

#include <cstdint>
#include <cstring>

#include "kv-pool.h"
#include "simd.h"

namespace perigee {

inline F32 widen(const float* from) { return load(from); }
inline F32 widen(const F16* from) { return loadF16(&from->bits); }

inline void scaleRow(float* to, const float* from, int count, float scale) {
  for (int i = 0; i < count; ++i) to[i] = from[i] * scale;
}

// loadFp8 returns the number times 2^-8; kOperandScale corrects for it.
inline F32 widen(const Fp8* from) { return loadFp8(&from->bits); }

template <typename T>
constexpr float kOperandScale = 1.0f;
template <>
inline constexpr float kOperandScale<Fp8> = 256.0f;

template <typename T>
struct Products {
  using Word = float;
  using Factor = F32;
  using Operand = F32;
  using Sum = F32;
  static constexpr bool kRoundsFactors = false;

  // Words of a query row of `dims` elements.
  static int64_t wordsOf(int dims) { return dims; }

  // Writes the words of a query row. An odd count leaves half a pair, which is set to 0.
  static void setWords(Word* to, const float* from, int count, float scale) {
    scaleRow(to, from, count, scale);
  }
  static Factor factor(const Word* word) { return broadcast(*word); }
  static Operand operand(const T* from) { return widen(from); }
  // Only the paired types have a part to mask.
  static Operand operandPart(const T* from, int /*part*/) { return widen(from); }
  static F32 add(F32 sum, Factor factor, Operand operand) { return fma(factor, operand, sum); }
  // A score from its sum. `last` points after the row's last factor; i8 keeps its scale there.
  static F32 score(Sum sum, const Word* /*last*/) { return sum; }
  static F32 total(Sum sum, float /*rowScale*/) { return sum; }
};

// Loads the pairs of kLanes sums; the variants below zero one half of each pair. Positions never
// written may hold NaN or infinity, and 0 times these is NaN, so a weight of 0 does not hide them.
inline U32 loadPairs(const Bf16* from) {
  U32 pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  return pairs;
}
inline U32 loadPairsPart(const Bf16* from, int part) {
  return loadPairs(from) & (part == 0 ? 0xffffu : 0xffff0000u);
}

// Stores factors as bf16 and returns the stored values: a softmax divides by the sum of the weights
// that are multiplied. The AVX-512 BF16 conversion flushes subnormal numbers to 0.
inline F32 storeHalves(uint16_t* to, F32 factors) {
#if defined(__AVX512BF16__)
  const U16 halves = bitCast<U16>(_mm512_cvtneps_pbh(factors));
#else
  const U16 halves = narrowBf16(factors);
#endif
  std::memcpy(to, &halves, sizeof halves);
  return widenBf16(halves);
}

#if defined(__AVX512BF16__)

template <>
struct Products<Bf16> {
  using Word = uint32_t;
  using Factor = __m512bh;
  using Operand = __m512bh;
  using Sum = F32;
  static constexpr bool kRoundsFactors = true;

  static int64_t wordsOf(int dims) { return (dims + 1) / 2; }
  static void setWords(Word* to, const float* from, int count, float scale) {
    auto* const halves = reinterpret_cast<uint16_t*>(to);
    const int whole = count / kLanes * kLanes;
    for (int i = 0; i < whole; i += kLanes) storeBf16(halves + i, load(from + i) * scale);
    for (int i = whole; i < count; ++i) halves[i] = narrowBf16(from[i] * scale);
    if (count % 2 != 0) halves[count] = 0;
  }
  static Factor factor(const Word* word) {
    return bitCast<__m512bh>(_mm512_set1_epi32(static_cast<int>(*word)));
  }
  static Operand operand(const Bf16* from) { return bitCast<__m512bh>(loadPairs(from)); }
  static Operand operandPart(const Bf16* from, int part) {
    return bitCast<__m512bh>(loadPairsPart(from, part));
  }
  static F32 add(F32 sum, Factor factor, Operand operand) {
    return _mm512_dpbf16_ps(sum, factor, operand);
  }
  static F32 score(Sum sum, const Word* /*last*/) { return sum; }
  static F32 total(Sum sum, float /*rowScale*/) { return sum; }
};

#else

template <>
struct Products<Bf16> {
  struct Word {
    float parts[2];
  };
  struct Factor {
    F32 first, second;
  };
  using Operand = U32;
  using Sum = F32;
  static constexpr bool kRoundsFactors = false;

  static int64_t wordsOf(int dims) { return (dims + 1) / 2; }
  static void setWords(Word* to, const float* from, int count, float scale) {
    scaleRow(to->parts, from, count, scale);
    if (count % 2 != 0) to[count / 2].parts[1] = 0.0f;
  }
  static Factor factor(const Word* word) {
    return {broadcast(word->parts[0]), broadcast(word->parts[1])};
  }
  static Operand operand(const Bf16* from) { return loadPairs(from); }
  static Operand operandPart(const Bf16* from, int part) { return loadPairsPart(from, part); }
  static F32 add(F32 sum, const Factor& factor, Operand operand) {
    const F32 first = bitCast<F32>(operand << 16);
    const F32 second = bitCast<F32>(operand & 0xffff0000u);
    return fma(factor.second, second, fma(factor.first, first, sum));
  }
  static F32 score(Sum sum, const Word* /*last*/) { return sum; }
  static F32 total(Sum sum, float /*rowScale*/) { return sum; }
};

#endif

}  // namespace perigee
