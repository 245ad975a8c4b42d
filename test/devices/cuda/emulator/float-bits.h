// The emulator's native/cuda/float-bits.h: the same conversions without PTX.
#pragma once

#include <cmath>

namespace perigee {

inline unsigned short bf16FromFloat(float value) {
  if (value != value) return 0x7fff;
  const unsigned bits = __float_as_uint(value);
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float floatFromF16(unsigned short half) {
  const float sign = half >> 15 ? -1.0f : 1.0f;
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

inline unsigned short f16FromFloat(float value) {
  const unsigned short sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (value != value) return 0x7fff;
  if (size >= 65520.0f) return sign | 0x7c00;
  if (size == 0.0f) return sign;  // it has no exponent
  // A step is 2^-24 below 2^-14, else the eleventh bit of the number.
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = exponent - 11 < -24 ? -24 : exponent - 11;
  const float steps = std::nearbyint(std::ldexp(size, -step));
  if (step == -24) return sign | static_cast<unsigned short>(steps);
  // Rounding up to 2048 steps carries into the exponent, as it must.
  return sign | static_cast<unsigned short>((step + 24) * 1024 + static_cast<int>(steps));
}

}  // namespace perigee
