// Tokens of beams, followed from each level to the one before.
//
//   row = s * W + w; for l = L - 1 down to 0:
//     out[s, w, l] = tokens of level l at row, row = parents of level l at row
//
// Shapes   levels: of each of L levels tokens, then parents, each padded to `stride`;
//          out [S, W, L], i32
// Work     one thread per beam: a beam has few levels
// Bound    latency: two dependent reads a level
// Checked  bench/gpu/smoke.mjs, traceBeams
#include "params.h"

namespace perigee {

struct TraceBeamsParams {
  const int* levels;
  int* out;
  int beams;  // S * W
  int length;
  int stride;
};

PERIGEE_KERNEL perigee_trace_beams(const __grid_constant__ TraceBeamsParams p) {
  joinStream();
  const int beam = blockIdx.x * blockDim.x + threadIdx.x;
  if (beam >= p.beams) return;
  int row = beam;
  for (int level = p.length - 1; level >= 0; --level) {
    const int* const tokens = p.levels + 2 * level * p.stride;
    p.out[beam * p.length + level] = tokens[row];
    row = tokens[p.stride + row];
  }
}

}  // namespace perigee
