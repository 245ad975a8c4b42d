// Tokens of beams, followed from each level to the one before.
//
// Formula  row = s * W + w; for l = L - 1 down to 0: out[s, w, l] = tokens of level l at row, row =
//          parents of level l at row
// Shapes   levels: of each of L levels tokens, then parents, each padded to `stride`; out [S, W, L]
// Work     a single loop: some numbers per beam
// Bound    latency
// Checked  test/contracts/device-ops/drafter.ts, traceBeams
#include "params.h"

namespace perigee {

struct TraceBeamsParams {
  const int32_t* levels;
  int32_t* out;
  Int beams;  // S * W
  Int length;
  Int stride;
};

PERIGEE_EXPORT void perigee_trace_beams(const TraceBeamsParams* params) {
  const TraceBeamsParams& p = *params;
  for (int64_t beam = 0; beam < p.beams; ++beam) {
    int64_t row = beam;
    for (int64_t level = p.length - 1; level >= 0; --level) {
      const int32_t* tokens = p.levels + 2 * level * p.stride;
      p.out[beam * p.length + level] = tokens[row];
      row = tokens[p.stride + row];
    }
  }
}

}  // namespace perigee
