// Keys and values as 8-bit numbers: x is about scale * q.
//
// One scale for each token's key and one for its value, of every kv head:
//   scale = bf16(max|x| / largest)      q = the number nearest to x / scale, ties to even
// largest is 127 (i8) or 448 (fp8 e4m3fn). A vector that holds NaN or infinity gets the scale NaN.
// Or one scale per tensor, calibrated; then what is too large saturates.
//
// The scale is rounded to bf16 before it divides, so its rounding costs no accuracy: the step
// becomes at most 2^-9 wider, and what lies beyond the largest number by that rounds to it.
// bf16 rather than f16: it has the exponents of f32, and small vectors keep their bits.
//
// The definition is src/devices/reference/kv-rounding.ts.
#pragma once

#include <cstdint>
#include <cstring>

#include "quantize.h"
#include "simd.h"

namespace perigee {

// 8-bit elements of a cache; types of their own, so that kernels are templates over the element.
struct Q8 {
  int8_t bits;
};
struct Fp8 {
  uint8_t bits;
};

// Formats whose numbers need a scale.
template <typename T>
constexpr bool kScaled = sizeof(T) == 1;

template <typename T>
constexpr float kLargest = 0.0f;
template <>
constexpr float kLargest<Q8> = 127.0f;
template <>
constexpr float kLargest<Fp8> = 448.0f;

// NaN where a vector holds NaN or infinity, else 0.
inline float poisonOf(const float* values, int count) {
  F32 poison = {};
  for (int i = 0; i < count; i += kLanes) {
    poison += loadFirst(values + i, lanesLeft(count - i)) * 0.0f;
  }
  return sum(poison);
}

// The scale of one vector, in bf16.
template <typename T>
uint16_t scaleOf(const float* values, int count) {
  return narrowBf16(largestMagnitude(values, count) / kLargest<T> + poisonOf(values, count));
}

// Quotients as the nearest codes.
inline U8 codesOf(F32 quotients, Q8 /*format*/) {
  const F32 whole = roundEven(max(min(quotients, broadcast(127.0f)), broadcast(-128.0f)));
  return __builtin_convertvector(toInt(whole), U8);
}

inline U8 codesOf(F32 quotients, Fp8 /*format*/) {
  const F32 size = min(abs(quotients), broadcast(kLargest<Fp8>));
  const U32 sign = (bitCast<U32>(quotients) >> 24) & 0x80u;

  // Normal numbers: three bits of the fraction stay, the exponent's bias falls from 127 to 7.
  const U32 bits = bitCast<U32>(size);
  const U32 normal = ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);

  // Below 2^-6 the step is 2^-9 throughout; 8 steps are the first normal number.
  const U32 subnormal = bitCast<U32>(toInt(roundEven(size * 512.0f)));
  return __builtin_convertvector((size < 0x1p-6f ? subnormal : normal) | sign, U8);
}

// Calls put(i, code) for every number of a vector of `count`.
template <typename T, typename Put>
void quantizeVector(const float* values, int count, float scale, const Put& put) {
  const F32 divisor = broadcast(scale == 0.0f ? 1.0f : scale);
  for (int i = 0; i < count; i += kLanes) {
    const int lanes = lanesLeft(count - i);
    const U8 codes = codesOf(loadFirst(values + i, lanes) / divisor, T{});
    for (int lane = 0; lane < lanes; ++lane) put(i + lane, codes[lane]);
  }
}

}  // namespace perigee
