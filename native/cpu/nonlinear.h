// Activation functions on vectors; defined by src/devices/reference/activate.ts.
//
// Approximations of the error function: S. Moshier, Cephes Math Library (single precision).
#pragma once

#include <type_traits>

#include "params.h"
#include "vector-math.h"

namespace perigee {

/// Same order as KINDS in src/devices/cpu/ops/activate.ts.
enum class Nonlinearity : int64_t { silu = 0, gelu = 1, geluTanh = 2, relu = 3, tanh = 4 };

template <int N>
inline F32 polynomial(F32 x, const float (&coefficients)[N]) {
  F32 sum = broadcast(coefficients[0]);
  for (int i = 1; i < N; ++i) sum = fma(sum, x, broadcast(coefficients[i]));
  return sum;
}

/// 1 - erf(x), with a small relative error where the result is tiny.
inline F32 erfc(F32 x) {
  static constexpr float kNear[] = {7.853861353153693e-5f,  -8.010193625184903e-4f,
                                    5.188327685732524e-3f,  -2.685381193529856e-2f,
                                    1.128358514861418e-1f,  -3.761262582423300e-1f,
                                    1.128379165726710f};
  static constexpr float kMiddle[] = {2.326819970068386e-2f,  -1.387039388740657e-1f,
                                      3.687424674597105e-1f,  -5.824733027278666e-1f,
                                      6.210004621745983e-1f,  -4.944515323274145e-1f,
                                      3.404879937665872e-1f,  -2.741127028184656e-1f,
                                      5.638259427386472e-1f};
  static constexpr float kFar[] = {-1.047766399936249e1f, 1.297719955372516e1f,
                                   -7.495518717768503f,   2.921019019210786f,
                                   -1.015265279202700f,   4.218463358204948e-1f,
                                   -2.820767439740514e-1f, 5.641895067754075e-1f};
  const F32 size = abs(x);
  const F32 square = x * x;
  const F32 near = fma(x * polynomial(square, kNear), broadcast(-1.0f), broadcast(1.0f));

  const F32 inverse = 1.0f / max(size, broadcast(1.0f));
  const F32 inverseSquare = inverse * inverse;
  const F32 middle = polynomial(inverseSquare, kMiddle);
  const F32 far = polynomial(inverseSquare, kFar);
  const F32 tail = exp(-square) * inverse * (size < 2.0f ? middle : far);
  return size < 1.0f ? near : (x < 0.0f ? 2.0f - tail : tail);
}

template <Nonlinearity kind>
inline F32 nonlinear(F32 x) {
  if constexpr (kind == Nonlinearity::silu) return x / (1.0f + exp(-x));
  if constexpr (kind == Nonlinearity::gelu) return 0.5f * x * erfc(x * -0.70710678118654752f);
  if constexpr (kind == Nonlinearity::geluTanh) {
    // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    const F32 inner = x * fma(x * x, broadcast(0.044715f), broadcast(1.0f));
    return x / (1.0f + exp(inner * -1.5957691216057308f));
  }
  if constexpr (kind == Nonlinearity::relu) return max(x, F32{});
  if constexpr (kind == Nonlinearity::tanh) return tanh(x);
}

/// Calls work(std::integral_constant<Nonlinearity, kind>).
template <typename Work>
inline void withNonlinearity(Nonlinearity kind, const Work& work) {
  switch (kind) {
    case Nonlinearity::silu:
      return work(std::integral_constant<Nonlinearity, Nonlinearity::silu>());
    case Nonlinearity::gelu:
      return work(std::integral_constant<Nonlinearity, Nonlinearity::gelu>());
    case Nonlinearity::geluTanh:
      return work(std::integral_constant<Nonlinearity, Nonlinearity::geluTanh>());
    case Nonlinearity::relu:
      return work(std::integral_constant<Nonlinearity, Nonlinearity::relu>());
    case Nonlinearity::tanh:
      return work(std::integral_constant<Nonlinearity, Nonlinearity::tanh>());
  }
}

}  // namespace perigee
