// Converts f32 rows to the format that a linear op reads: out = x, rounded.
//
// Shapes   x [T, E] f32, out [T, E]
// Work     one block per kRowPart columns of a row: a few rows are spread over the GPU, and each
//          thread's loads are in flight together
// Bound    memory: 4 bytes read per element, and the output
// Checked  bench/gpu/smoke.mjs, convert
#include "packed-rows.h"

namespace perigee {

struct ConvertParams {
  PackedRows out;
  const float* x;
};

PERIGEE_KERNEL perigee_convert(const __grid_constant__ ConvertParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const float* const x = p.x + row * p.out.columns;
  p.out.storePart(row, static_cast<int>(blockIdx.y), [&](int i) { return x[i]; });
}

}  // namespace perigee
