// exp and tanh of a vector, accurate to about one unit in the last place.
//
// Source of the polynomials: S. Moshier, Cephes Math Library (single precision).
#pragma once

#include "simd.h"

namespace perigee {

/// a * 2^n for an integer n in [-150, 129], rounded once; NaN stays NaN.
inline F32 scaleByPower(F32 a, F32 n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, a, n);
#else
  // Two factors, so that neither overflows.
  const I32 exponent = toInt(n);
  const I32 half = exponent >> 1;
  const F32 first = bitCast<F32>((half + 127) << 23);
  const F32 second = bitCast<F32>((exponent - half + 127) << 23);
  return a * first * second;
#endif
}

/// e^x. Below -104: 0; above 88.8: infinity; NaN stays NaN.
inline F32 exp(F32 x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 is split in two parts to keep r exact.
  const F32 clamped = min(broadcast(88.8f), max(broadcast(-104.0f), x));
  const F32 n = roundEven(clamped * 1.44269504088896341f);
  F32 r = fma(n, broadcast(-0.693359375f), clamped);
  r = fma(n, broadcast(2.12194440e-4f), r);

  F32 p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  return scaleByPower(fma(p, r * r, r) + 1.0f, n);
}

inline F32 tanh(F32 x) {
  const F32 size = abs(x);

  // Near 0 the polynomial keeps the relative error small.
  const F32 z = x * x;
  F32 p = broadcast(-5.70498872745e-3f);
  p = fma(p, z, broadcast(2.06390887954e-2f));
  p = fma(p, z, broadcast(-5.37397155531e-2f));
  p = fma(p, z, broadcast(1.33314422036e-1f));
  p = fma(p, z, broadcast(-3.33332819422e-1f));
  const F32 near = fma(p * z, x, x);

  const F32 far = 1.0f - 2.0f / (exp(size + size) + 1.0f);
  const F32 signedFar = x < 0.0f ? -far : far;
  return size < 0.625f ? near : signedFar;
}

inline float exp(float x) { return exp(broadcast(x))[0]; }
inline float tanh(float x) { return tanh(broadcast(x))[0]; }

}  // namespace perigee
