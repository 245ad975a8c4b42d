// Gumbel noise of random words, bitwise equal to src/base/gumbel.ts, where the formulas are.
#pragma once

#include <cmath>
#include <cstdint>

namespace perigee {

constexpr double kLn2 = 0.6931471805599453;
constexpr double kRootHalf = 0.7071067811865476;

/// Keeps the compiler from joining a product and a sum into one rounded operation (-ffp-contract).
inline double rounded(double product) {
#if defined(__aarch64__)
  asm("" : "+w"(product));
#else
  asm("" : "+x"(product));
#endif
  return product;
}

/// ln(value), value > 0.
inline double logarithm(double value) {
  int exponent;
  double mantissa = std::frexp(value, &exponent);
  if (mantissa < kRootHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = rounded(s * s);
  double series = 1.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) series = rounded(series * square) + 1.0 / odd;
  const double tail = rounded(s * rounded(square * series));
  return rounded(exponent * kLn2) + 2.0 * (s + tail);
}

/// -ln(-ln((word + 1/2) / 2^32)).
inline double gumbelOf(uint32_t word) {
  return -logarithm(-logarithm((word + 0.5) * 0x1p-32));
}

/// At least the noise: -ln u >= 1 - u, so the noise is at most -ln(1 - u), and 1 - u is at least
/// 2^-(1 + leading ones of the word). For all ones: 33 ln 2, the largest noise up to 2^-34.
inline double gumbelBound(uint32_t word) {
  const int ones = word == ~uint32_t{0} ? 32 : __builtin_clz(~word);
  return kLn2 * (1 + ones);
}

/// The smallest word whose gumbelBound reaches `noise`; false: there is none.
inline bool leastWord(double noise, uint32_t& word) {
  const double ones = std::ceil(noise / kLn2 - 1.0);
  if (ones > 32.0) return false;
  word = ones > 0.0 ? ~uint32_t{0} << (32 - static_cast<int>(ones)) : 0;
  return true;
}

}  // namespace perigee
