// out = act(x), or with a gate act(gate) * up, rounded to the format that a linear reads.
//
// Shapes   x [T, F], gated [T, 2F]: gate, then up; out [T, F]
// Work     a block per row
// Bound    memory: 4 or 8 bytes read per output, and the output
// Checked  bench/gpu/smoke.mjs, activate
#include "nonlinear.h"
#include "packed-rows.h"

namespace perigee {

struct ActivateParams {
  PackedRows out;
  const float* x;
  Nonlinearity kind;
  int gated;
};

PERIGEE_KERNEL perigee_activate(const __grid_constant__ ActivateParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  if (p.gated) {
    const float* const gate = p.x + row * 2 * columns;
    p.out.store(row, [&](int i) { return nonlinear(p.kind, gate[i]) * gate[columns + i]; });
  } else {
    const float* const x = p.x + row * columns;
    p.out.store(row, [&](int i) { return nonlinear(p.kind, x[i]); });
  }
}

}  // namespace perigee
