// Logit softcap: smoothly limits logits to (-cap, cap).
//
// Formula  x = cap * tanh(x / cap)
// Shapes   x [R, V]
// Work     tasks of consecutive elements
// Bound    compute: about 30 instructions per vector
// Checked  test/contracts/device-ops.ts, softcap
#include "params.h"
#include "rows.h"
#include "thread-pool.h"
#include "vector-math.h"

namespace perigee {

struct SoftcapParams {
  ThreadPool* pool;
  float* x;
  Int elements;
  Float cap;
};

PERIGEE_EXPORT void perigee_softcap(const SoftcapParams* params) {
  const SoftcapParams& p = *params;
  const float cap = p.cap;
  parallelSpans(*p.pool, p.elements, [&](int64_t begin, int64_t end) {
    float* const x = p.x + begin;
    forLanes(end - begin, [&](int64_t i, int lanes) {
      storeLanes(x + i, cap * tanh(loadLanes(x + i, lanes) / cap), lanes);
    });
  });
}

}  // namespace perigee
