// Conversions between f32 and 16-bit floats by single PTX instructions. Plain kernels need no other
// PTX header. An emulator substitutes its own file (test/devices/cuda/emulator).
#pragma once

namespace perigee {

/// Rounds to nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ unsigned short bf16FromFloat(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ unsigned short f16FromFloat(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ float floatFromF16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

}  // namespace perigee
