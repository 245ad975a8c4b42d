// Bits of 16-bit floats, converted by single PTX instructions. The one header with PTX that plain
// kernels need: an emulator puts its own in this place (test/devices/cuda/emulator).
#pragma once

namespace perigee {

/// To the nearest, halves to even; what is NaN stays NaN.
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
