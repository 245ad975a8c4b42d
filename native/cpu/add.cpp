// Residual addition.
//
// Formula  x += delta
// Shapes   x, delta [T, E]
// Work     tasks of consecutive elements
// Bound    memory: 8 bytes read and 4 written per element
// Checked  test/contracts/device-ops.ts, add
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct AddParams {
  ThreadPool* pool;
  float* x;
  const float* delta;
  Int elements;
};

PERIGEE_EXPORT void perigee_add(const AddParams* params) {
  const AddParams& p = *params;
  parallelSpans(*p.pool, p.elements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) p.x[i] += p.delta[i];
  });
}

}  // namespace perigee
