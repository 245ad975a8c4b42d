// 8-bit quantisation of keys and values: x ~ scale * q.
//
// With per-token scales, each kv head has one scale for a token's key and one for its value:
//   scale = bf16(max|x| / largest)      q = x / scale, rounded to the nearest, ties to even
// `largest` is 127 (i8) or 448 (fp8 e4m3fn). A vector that holds NaN or infinity gets the scale
// NaN. With per-tensor scales, calibrated beforehand, larger numbers saturate.
//
// The scale is rounded to bf16 before the division, so its rounding error does not add to that of
// q: the step grows by at most 2^-9 of itself, and a quotient above `largest` by that much rounds
// to it. bf16 is used rather than f16 because it has the exponent range of f32, so small vectors
// keep their precision.
//
// Defined by src/devices/reference/kv-rounding.ts.
#pragma once

#include <cstdint>
#include <cstring>

#include "quantize.h"
#include "simd.h"

namespace perigee {

// 8-bit cache elements as distinct types, so that kernels can be templates over the element type.
struct Q8 {
  int8_t bits;
};
struct Fp8 {
  uint8_t bits;
};

// Formats that need a scale.
template <typename T>
constexpr bool kScaled = sizeof(T) == 1;

template <typename T>
constexpr float kLargest = 0.0f;
template <>
inline constexpr float kLargest<Q8> = 127.0f;
template <>
inline constexpr float kLargest<Fp8> = 448.0f;

// NaN if the vector holds NaN or infinity, else 0.
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

// Quantises quotients to the nearest code.
inline U8 codesOf(F32 quotients, Q8 /*format*/) {
  const F32 whole = roundEven(max(min(quotients, broadcast(127.0f)), broadcast(-128.0f)));
  return __builtin_convertvector(toInt(whole), U8);
}

inline U8 codesOf(F32 quotients, Fp8 /*format*/) {
  const F32 size = min(abs(quotients), broadcast(kLargest<Fp8>));
  const U32 sign = (bitCast<U32>(quotients) >> 24) & 0x80u;

  // Normal numbers: 3 fraction bits remain, and the exponent bias changes from 127 to 7.
  const U32 bits = bitCast<U32>(size);
  const U32 normal = ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);

  // Below 2^-6 (subnormal) the step is 2^-9 throughout; 8 steps give the first normal number.
  const U32 subnormal = bitCast<U32>(toInt(roundEven(size * 512.0f)));
  return __builtin_convertvector((size < 0x1p-6f ? subnormal : normal) | sign, U8);
}

// Calls put(i, code) for each of the `count` elements.
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
