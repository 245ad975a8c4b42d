// Logit softcap: x = cap * tanh(x / cap).
//
// Shapes   x [count] f32
// Work     one thread per element, grid-stride loop
// Bound    memory: 4 bytes read and 4 written per element
// Checked  bench/gpu/smoke.mjs, softcap
#include "params.h"

namespace perigee {

struct SoftcapParams {
  float* x;
  int64_t count;
  float cap;
};

PERIGEE_KERNEL perigee_softcap(const __grid_constant__ SoftcapParams p) {
  joinStream();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count;
       i += stride) {
    p.x[i] = p.cap * tanhf(p.x[i] / p.cap);
  }
}

}  // namespace perigee
