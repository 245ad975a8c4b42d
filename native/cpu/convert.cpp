// Rows of floats to the format of the weights that they will meet.
//
// Shapes   x [T, E]; out [T, E] activation
// Work     rows
// Bound    memory: 4 bytes read, 4, 2 or 1 written per element
// Checked  test/contracts/device-ops.ts, convert
#include "activation.h"
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct ConvertParams {
  ThreadPool* pool;
  void* out;
  Int outFormat;
  const float* x;
  Int count, columns;
};

PERIGEE_EXPORT void perigee_convert(const ConvertParams* params) {
  const ConvertParams& p = *params;
  const int64_t columns = p.columns;
  const ActivationWriter writer(p.out, formatOf(p.outFormat), columns);
  parallelRows(*p.pool, p.count, columns,
               [&](int64_t row, int) { writer.finish(row, p.x + row * columns); });
}

}  // namespace perigee
