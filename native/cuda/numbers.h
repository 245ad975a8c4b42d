// Fixed-width integers and 16-bit floats without CUDA's headers, so that kernels compile where
// NVRTC is the only installed part of the toolkit.
#pragma once

#include "float-bits.h"

namespace perigee {

using int8_t = signed char;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

static_assert(sizeof(void*) == 8, "addresses of 64 bits");

/// Positive infinity, NaN. Functions, since NVRTC has no constants for them.
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float notANumber() { return __int_as_float(0x7fc00000); }

/// A bf16 element. A distinct type, so that it is not taken for an integer.
struct Bf16 {
  uint16_t bits;
};

/// An f16 element.
struct F16 {
  uint16_t bits;
};

__device__ __forceinline__ float widen(float value) { return value; }

/// Exact: bf16 is the upper half of a float.
__device__ __forceinline__ float widen(Bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float widen(F16 value) { return floatFromF16(value.bits); }

/// Rounds to nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ Bf16 narrowBf16(float value) { return {bf16FromFloat(value)}; }

__device__ __forceinline__ F16 narrowF16(float value) { return {f16FromFloat(value)}; }

__host__ __device__ constexpr int64_t padTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace perigee
