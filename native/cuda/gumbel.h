// Gumbel noise of random words, bitwise equal to src/base/gumbel.ts, where the formulas are.
#pragma once

#include "numbers.h"

namespace perigee {

constexpr double kLn2 = 0.6931471805599453;
constexpr double kRootHalf = 0.7071067811865476;

/// ln(value), value > 0 and normal. Each operation is rounded on its own: none becomes an fma.
__device__ inline double logarithm(double value) {
  const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(value));
  const uint64_t fraction = bits & 0x000fffffffffffffull;
  double mantissa = __longlong_as_double(static_cast<int64_t>(fraction | 0x3ff0000000000000ull));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  if (mantissa >= 2 * kRootHalf) {
    mantissa = __dmul_rn(mantissa, 0.5);
    ++exponent;
  }
  const double s = __ddiv_rn(__dadd_rn(mantissa, -1.0), __dadd_rn(mantissa, 1.0));
  const double square = __dmul_rn(s, s);
  double series = 1.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) {
    series = __dadd_rn(__dmul_rn(series, square), __ddiv_rn(1.0, static_cast<double>(odd)));
  }
  const double tail = __dmul_rn(s, __dmul_rn(square, series));
  const double whole = __dmul_rn(static_cast<double>(exponent), kLn2);
  return __dadd_rn(whole, __dmul_rn(2.0, __dadd_rn(s, tail)));
}

/// -ln(-ln((word + 1/2) / 2^32)). Called, not inlined: it is rare, and divisions take registers.
static __device__ __attribute__((noinline)) double gumbelOf(uint32_t word) {
  const double half = __dadd_rn(static_cast<double>(word), 0.5);
  return -logarithm(-logarithm(__dmul_rn(half, 1.0 / 4294967296.0)));
}

/// The noise in f32, within 3e-6 of gumbelOf. u above 1/2 is computed from 1 - u, which keeps its
/// digits.
__device__ __forceinline__ float roughGumbel(uint32_t word) {
  const bool isUpper = (word >> 31) != 0;
  const float part = (static_cast<float>(isUpper ? ~word : word) + 0.5f) * (1.0f / 4294967296.0f);
  return -logf(isUpper ? -log1pf(-part) : -logf(part));
}

/// At least the noise: -ln u >= 1 - u, so the noise is at most -ln(1 - u), and 1 - u is at least
/// 2^-(1 + leading ones of the word).
__device__ __forceinline__ float gumbelBound(uint32_t word) {
  return static_cast<float>(kLn2) * static_cast<float>(1 + __clz(static_cast<int>(~word)));
}

/// More than any noise, at most 33 ln 2 = 22.874, and less than any, at least -3.130.
constexpr float kGumbelMax = 22.88f;
constexpr float kGumbelMin = -3.14f;

}  // namespace perigee
