// Residual addition.
//
// Formula  x += delta, or x += act(delta)
// Shapes   x, delta [T, E]
// Work     tasks of consecutive elements
// Bound    memory: 8 bytes read and 4 written per element
// Checked  test/contracts/device-ops.ts, add
#include "nonlinear.h"
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct AddParams {
  ThreadPool* pool;
  float* x;
  const float* delta;
  Int elements;
  Int kind;  // negative: none
};

PERIGEE_EXPORT void perigee_add(const AddParams* params) {
  const AddParams& p = *params;
  if (p.kind < 0) {
    parallelSpans(*p.pool, p.elements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) p.x[i] += p.delta[i];
    });
    return;
  }
  withNonlinearity(static_cast<Nonlinearity>(int64_t{p.kind}), [&](auto kind) {
    parallelSpans(*p.pool, p.elements, [&](int64_t begin, int64_t end) {
      float* const x = p.x + begin;
      const float* const delta = p.delta + begin;
      forLanes(end - begin, [&](int64_t i, int lanes) {
        const F32 added = nonlinear<kind()>(loadLanes(delta + i, lanes));
        storeLanes(x + i, loadLanes(x + i, lanes) + added, lanes);
      });
    });
  });
}

}  // namespace perigee
