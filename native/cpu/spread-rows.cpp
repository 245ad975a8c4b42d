// Expands ragged rows, stored one after another, to a table of equally long rows: block tables.
//
// Formula  out[s][i] = values[starts[s] + i] for 0 <= i < starts[s + 1] - starts[s]
// Shapes   out [S, M]; starts [S + 1]; values [at least starts[S]]
// Work     a single loop over rows, one copy each
// Bound    memory: 4 bytes read and written per element of `values`
// Checked  test/contracts/device-ops.ts, spreadRows
#include <cstring>

#include "params.h"

namespace perigee {

struct SpreadRowsParams {
  int32_t* out;
  const int32_t* starts;
  const int32_t* values;
  Int count, columns;
};

PERIGEE_EXPORT void perigee_spread_rows(const SpreadRowsParams* params) {
  const SpreadRowsParams& p = *params;
  const int64_t count = p.count, columns = p.columns;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t start = p.starts[row];
    std::memcpy(p.out + row * columns, p.values + start,
                static_cast<size_t>(p.starts[row + 1] - start) * sizeof(int32_t));
  }
}

}  // namespace perigee
