// Row gather: out[r] = x[indices[r]].
//
// Shapes   x [T, E] f32, indices [R] i32, out [R, E] f32
// Work     one block per output row
// Bound    memory: 4 bytes read and 4 written per element
// Checked  bench/gpu/smoke.mjs, gatherRows
#include "params.h"

namespace perigee {

struct GatherRowsParams {
  float* out;
  const float* x;
  const int* indices;
  int columns;
};

PERIGEE_KERNEL perigee_gather_rows(const __grid_constant__ GatherRowsParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const float* const x = p.x + static_cast<int64_t>(p.indices[row]) * p.columns;
  float* const out = p.out + row * p.columns;
  for (int i = threadIdx.x; i < p.columns; i += blockDim.x) out[i] = x[i];
}

}  // namespace perigee
