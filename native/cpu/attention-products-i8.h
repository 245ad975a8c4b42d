// Dot products of i8 keys and values: pairs of 16-bit integers, accumulated exactly in 32 bits.
//
// A query or weight row is quantised to 16 bits: q = round(x / step), step = max|x| / largest. A
// sum of D products (scores) or of kSegmentTokens products (values) must stay below 2^31. With up
// to 256 terms it does: 2^7 * 2^15 * 2^8 = 2^30. For more terms `largest` is reduced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention-products.h"
#include "kv-quantize.h"
#include "simd.h"

namespace perigee {

// Largest 16-bit factor that lets `terms` products with 8-bit numbers fit the 32-bit sum.
constexpr float largestFactor(int terms) {
  return terms <= 256 ? 32767.0f : static_cast<float>((1 << 23) / terms);
}

// Rounds up to kLanes quotients to 16 bits.
inline void storeFactors(int16_t* to, F32 quotients, int lanes = kLanes) {
  const I16 whole = __builtin_convertvector(toInt(roundEven(quotients)), I16);
  std::memcpy(to, &whole, static_cast<size_t>(lanes) * sizeof(int16_t));
}

#if defined(__AVX512F__)
typedef __m512i Int16Pairs;
#elif defined(__AVX2__)
typedef __m256i Int16Pairs;
#else
typedef int16x8_t Int16Pairs;
#endif

template <>
struct Products<Q8> {
  using Word = int32_t;
  using Factor = Int16Pairs;
  using Operand = Int16Pairs;
  using Sum = I32;
  static constexpr bool kRoundsFactors = false;

  // The pairs, then one word with the bits of a float: the row's step times the softmax scale.
  static int64_t wordsOf(int dims) { return (dims + 1) / 2 + 1; }

  static void setWords(Word* to, const float* from, int count, float scale) {
    const float largest = largestMagnitude(from, count);
    const float step = (largest > 0 ? largest : 1.0f) / largestFactor(count);
    auto* const halves = reinterpret_cast<int16_t*>(to);
    for (int i = 0; i < count; i += kLanes) {
      const int lanes = lanesLeft(count - i);
      storeFactors(halves + i, loadFirst(from + i, lanes) / step, lanes);
    }
    if (count % 2 != 0) halves[count] = 0;
    to[(count + 1) / 2] = bitCast<int32_t>((step + poisonOf(from, count)) * scale);
  }
  static Operand operand(const Q8* from) {
#if defined(__AVX512F__)
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    return vmovl_s8(vld1_s8(&from->bits));
#endif
  }
  // The hidden half has the factor 0, and any integer times 0 is 0, so the key needs no masking.
  static Operand operandPart(const Q8* from, int /*part*/) { return operand(from); }
  static Factor factor(const Word* word) {
#if defined(__AVX512F__)
    return _mm512_set1_epi32(*word);
#elif defined(__AVX2__)
    return _mm256_set1_epi32(*word);
#else
    return vreinterpretq_s16_s32(vdupq_n_s32(*word));
#endif
  }
  static Sum add(Sum sum, Factor factor, Operand operand) {
#if defined(__AVX512F__)
    return bitCast<I32>(_mm512_dpwssd_epi32(bitCast<__m512i>(sum), factor, operand));
#elif defined(__AVXVNNI__)
    return bitCast<I32>(_mm256_dpwssd_avx_epi32(bitCast<__m256i>(sum), factor, operand));
#elif defined(__AVX2__)
    return sum + bitCast<I32>(_mm256_madd_epi16(factor, operand));
#else
    const int32x4_t low = vmull_s16(vget_low_s16(factor), vget_low_s16(operand));
    const int32x4_t high = vmull_s16(vget_high_s16(factor), vget_high_s16(operand));
    return sum + bitCast<I32>(vpaddq_s32(low, high));
#endif
  }
  static F32 score(Sum sum, const Word* last) {
    return toFloat(sum) * broadcast(bitCast<float>(*last));
  }
  static F32 total(Sum sum, float rowScale) { return toFloat(sum) * broadcast(rowScale); }
};

}  // namespace perigee
