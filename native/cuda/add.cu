// Residual addition: x = x + delta, or x + act(delta).
//
// Shapes   x, delta [count] f32
// Work     one thread per element, grid-stride loop
// Bound    memory: 8 bytes read and 4 written per element
// Checked  bench/gpu/smoke.mjs, add; with act test/contracts/device-ops/rows.ts
#include "nonlinear.h"

namespace perigee {

struct AddParams {
  float* x;
  const float* delta;
  int64_t count;
  int kind;  // of Nonlinearity; negative: none
};

PERIGEE_KERNEL perigee_add(const __grid_constant__ AddParams p) {
  joinStream();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p.kind < 0) {
    for (int64_t i = first; i < p.count; i += stride) p.x[i] += p.delta[i];
  } else {
    const auto kind = static_cast<Nonlinearity>(p.kind);
    for (int64_t i = first; i < p.count; i += stride) p.x[i] += nonlinear(kind, p.delta[i]);
  }
}

}  // namespace perigee
