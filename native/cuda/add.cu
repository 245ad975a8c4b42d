// Residual addition: x = x + delta.
//
// Shapes   x, delta [count] f32
// Work     one thread per element, grid-stride loop
// Bound    memory: 8 bytes read and 4 written per element
// Checked  bench/gpu/smoke.mjs, add
#include "params.h"

namespace perigee {

struct AddParams {
  float* x;
  const float* delta;
  int64_t count;
};

PERIGEE_KERNEL perigee_add(const __grid_constant__ AddParams p) {
  joinStream();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count;
       i += stride) {
    p.x[i] += p.delta[i];
  }
}

}  // namespace perigee
