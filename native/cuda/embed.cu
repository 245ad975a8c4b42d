// out[t] = scale * table[ids[t] + offset], or added to what out[t] holds.
//
// Shapes   ids [T] i32, table [V, E] packed or f32, out [T, E] f32
// Work     a block per token
// Bound    memory: one table row read and one output row written per token
// Checked  bench/gpu/smoke.mjs, embed
#include "packed-rows.h"

namespace perigee {

struct EmbedParams {
  PackedRows table;
  float* out;
  const int* ids;
  int rows;  // V
  int offset;
  float scale;
  int accumulate;
};

PERIGEE_KERNEL perigee_embed(const __grid_constant__ EmbedParams p) {
  joinStream();
  const int64_t token = blockIdx.x;
  const int columns = p.table.columns;
  float* const out = p.out + token * columns;

  // Rows of padding in a captured batch may carry any id: they get zeros instead of foreign memory.
  const int row = p.ids[token] + p.offset;
  const bool known = row >= 0 && row < p.rows;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = known ? p.scale * p.table.load(row, i) : 0.0f;
    out[i] = p.accumulate ? out[i] + value : value;
  }
}

}  // namespace perigee
