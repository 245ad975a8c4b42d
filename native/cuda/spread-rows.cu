// Expands ragged rows, stored one after another, to a table of equally long rows: block tables.
// out[s][i] = values[starts[s] + i] for 0 <= i < starts[s + 1] - starts[s].
//
// Shapes   out [S, M] i32, starts [S + 1] i32, values [starts[S] or more] i32
// Work     one block per row
// Bound    memory: 4 bytes read and 4 written per element of `values`
// Checked  bench/gpu/smoke.mjs, spreadRows
#include "params.h"

namespace perigee {

struct SpreadRowsParams {
  int* out;
  const int* starts;
  const int* values;
  int columns;  // M
};

PERIGEE_KERNEL perigee_spread_rows(const __grid_constant__ SpreadRowsParams p) {
  joinStream();
  const int row = blockIdx.x;
  const int start = p.starts[row];
  // Rows that are too long are truncated, so that they do not overwrite the next row.
  const int given = p.starts[row + 1] - start;
  const int length = given < p.columns ? given : p.columns;
  int* const out = p.out + static_cast<int64_t>(row) * p.columns;
  for (int i = threadIdx.x; i < length; i += blockDim.x) out[i] = p.values[start + i];
}

}  // namespace perigee
