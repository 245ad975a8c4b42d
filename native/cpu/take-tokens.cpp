// Fills token ids from the tokens that the previous step sampled.
//
// Formula  ids[t] = drawn[sources[t]] where sources[t] >= 0
// Shapes   ids, sources [T]; drawn [R]
// Work     a single loop: a step has few tokens
// Bound    memory: 12 bytes per token
// Checked  test/contracts/device-ops.ts, takeTokens
#include "params.h"

namespace perigee {

struct TakeTokensParams {
  int32_t* ids;
  const int32_t* drawn;
  const int32_t* sources;
  Int count;
};

PERIGEE_EXPORT void perigee_take_tokens(const TakeTokensParams* params) {
  const TakeTokensParams& p = *params;
  const int64_t count = p.count;
  for (int64_t token = 0; token < count; ++token) {
    if (p.sources[token] >= 0) p.ids[token] = p.drawn[p.sources[token]];
  }
}

}  // namespace perigee
