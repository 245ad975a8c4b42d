// Element types of keys and values, and their 8-bit quantisation.
//
//   scale = bf16(max |x| / largest)   q = x / scale, rounded to the nearest, ties to even
// `largest` is 127 (i8) or 448 (fp8 e4m3fn). A vector that holds NaN or infinity gets the scale
// NaN. With a per-tensor scale, calibrated beforehand, larger numbers saturate. Defined by
// src/devices/reference/kv-rounding.ts.
#pragma once

#include "params.h"

namespace perigee {

/// 8-bit cache elements as distinct types, so that kernels can be templates over the element type.
struct Q8 {
  int8_t bits;
};
struct Fp8 {
  uint8_t bits;
};

/// Formats that need a scale.
template <typename T>
constexpr bool kScaled = sizeof(T) == 1;

template <typename T>
constexpr float kLargest = 0.0f;
template <>
constexpr float kLargest<Q8> = 127.0f;
template <>
constexpr float kLargest<Fp8> = 448.0f;

/// The element as a float, without its scale.
__device__ __forceinline__ float widen(Q8 value) { return static_cast<float>(value.bits); }

/// The bits of e4m3, shifted, are an f16 that is 2^8 times smaller, also for subnormal numbers. The
/// NaN code of e4m3 never occurs: a vector with NaN has the scale NaN instead.
__device__ __forceinline__ float widen(Fp8 value) {
  const uint32_t bits = value.bits;
  const uint16_t half = static_cast<uint16_t>(((bits & 0x80u) << 8) | ((bits & 0x7fu) << 7));
  return widen(F16{half}) * 256.0f;
}

__device__ __forceinline__ void narrow(float* to, float value) { *to = value; }
__device__ __forceinline__ void narrow(F16* to, float value) { *to = narrowF16(value); }
__device__ __forceinline__ void narrow(Bf16* to, float value) { *to = narrowBf16(value); }

/// Quantises a quotient to the nearest code; larger ones saturate.
__device__ __forceinline__ void narrow(Q8* to, float quotient) {
  to->bits = static_cast<int8_t>(rintf(fminf(fmaxf(quotient, -128.0f), 127.0f)));
}

__device__ __forceinline__ void narrow(Fp8* to, float quotient) {
  const float size = fminf(fabsf(quotient), kLargest<Fp8>);
  const uint32_t sign = (__float_as_uint(quotient) >> 24) & 0x80u;

  // Normal numbers: 3 fraction bits remain, and the exponent bias changes from 127 to 7.
  const uint32_t bits = __float_as_uint(size);
  const uint32_t normal = ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);

  // Below 2^-6 (subnormal) the step is 2^-9 throughout; 8 steps give the first normal number.
  const uint32_t subnormal = static_cast<uint32_t>(rintf(size * 512.0f));
  to->bits = static_cast<uint8_t>((size < 0.015625f ? subnormal : normal) | sign);
}

/// Calls `work(T{})` with the cache's element type.
template <typename Work>
__device__ __forceinline__ void withElement(Element element, const Work& work) {
  switch (element) {
    case Element::f32: work(float{}); break;
    case Element::f16: work(F16{}); break;
    case Element::bf16: work(Bf16{}); break;
    case Element::i8: work(Q8{}); break;
    default: work(Fp8{}); break;
  }
}

}  // namespace perigee
