// Fills token ids from the tokens that the previous step sampled, without a round trip to the host:
// ids[t] = drawn[sources[t]] where sources[t] >= 0.
//
// Shapes   ids, sources [T] i32, drawn [R] i32
// Work     one thread per token
// Bound    latency: 12 bytes per token
// Checked  bench/gpu/smoke.mjs, takeTokens
#include "params.h"

namespace perigee {

struct TakeTokensParams {
  int* ids;
  const int* drawn;
  const int* sources;
  int count;
};

PERIGEE_KERNEL perigee_take_tokens(const __grid_constant__ TakeTokensParams p) {
  joinStream();
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= p.count) return;
  const int source = p.sources[token];
  if (source >= 0) p.ids[token] = p.drawn[source];
}

}  // namespace perigee
