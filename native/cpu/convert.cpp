// Converts f32 rows to the activation format of the weights that they will be multiplied by.
//
// Shapes   x [T, E]; out [T, E] activation
// Work     tasks of consecutive rows
// Bound    memory: 4 bytes read per element, 4, 2 or 1 written
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
