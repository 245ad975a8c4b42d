// Activation functions; defined by src/devices/reference/activate.ts.
#pragma once

#include "params.h"

namespace perigee {

/// Same order as KINDS in src/devices/cuda/ops/activate.ts.
enum class Nonlinearity : int32_t { silu = 0, gelu = 1, geluTanh = 2, relu = 3, tanh = 4 };

__device__ __forceinline__ float nonlinear(Nonlinearity kind, float x) {
  switch (kind) {
    case Nonlinearity::silu: return x / (1.0f + expf(-x));
    // erfc keeps its relative accuracy where 1 + erf would cancel.
    case Nonlinearity::gelu: return 0.5f * x * erfcf(x * -0.70710678118654752f);
    case Nonlinearity::geluTanh: {
      // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
      const float inner = x * fmaf(x * x, 0.044715f, 1.0f);
      return x / (1.0f + expf(inner * -1.5957691216057308f));
    }
    case Nonlinearity::tanh: return tanhf(x);
    default: return fmaxf(x, 0.0f);
  }
}

}  // namespace perigee
