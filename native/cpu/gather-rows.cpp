// Selects rows: those tokens of a step whose logits are needed.
//
// Formula  out[r] = x[indices[r]]
// Shapes   x [T, E]; indices [R]; out [R, E]
// Work     tasks of consecutive rows
// Bound    memory: 4 bytes read and written per element
// Checked  test/contracts/device-ops.ts, gatherRows
#include <cstring>

#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct GatherRowsParams {
  ThreadPool* pool;
  float* out;
  const float* x;
  const int32_t* indices;
  Int count, columns;
};

PERIGEE_EXPORT void perigee_gather_rows(const GatherRowsParams* params) {
  const GatherRowsParams& p = *params;
  const int64_t columns = p.columns;
  parallelRows(*p.pool, p.count, columns, [&](int64_t row, int) {
    std::memcpy(p.out + row * columns, p.x + p.indices[row] * columns,
                static_cast<size_t>(columns) * sizeof(float));
  });
}

}  // namespace perigee
