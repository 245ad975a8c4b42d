// Embedding lookup: out[t] = scale * table[ids[t] + offset], optionally added to out[t].
//
// Shapes   ids [T] i32, table [V, E] packed or f32, out [T, E] f32
// Work     One block per token. Where a row is a multiple of 4 columns, a thread handles groups of
//          4 adjacent columns (quads), with the loads of kQuads of them in flight
// Bound    memory: one table row read and one output row written per token
// Checked  bench/gpu/smoke.mjs, embed; bench/gpu/rows.mjs
#include "row-quads.h"

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

namespace {

/// Quads per thread in flight; 2048 columns with the 256 threads of a block. Four took 7 % longer
/// for 8192 rows of 4096 columns on one H200.
constexpr int kQuads = 2;
using Quads = RowQuads<kQuads>;

/// Columns from `first` on, as many as a block handles at once. Negative `row`: zeros.
__device__ __forceinline__ void embedQuads(const EmbedParams& p, int row, float* out, int first) {
  const int columns = p.table.columns - first;
  Quads values;
  if (row >= 0) {
    values.loadPacked(p.table, row, first);
  } else {
    Quads::forOwn(columns, [&](int i, int) { values.quads[i] = {0.0f, 0.0f, 0.0f, 0.0f}; });
  }
  Quads before;
  if (p.accumulate) before.load(out + first, columns);
  Quads::forOwn(columns, [&](int i, int) {
    float4& to = values.quads[i];
    to = {p.scale * to.x, p.scale * to.y, p.scale * to.z, p.scale * to.w};
    if (!p.accumulate) return;
    const float4& old = before.quads[i];
    to = {old.x + to.x, old.y + to.y, old.z + to.z, old.w + to.w};
  });
  values.store(out + first, columns);
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(256)
perigee_embed(const __grid_constant__ EmbedParams p) {
  joinStream();
  const int64_t token = blockIdx.x;
  const int columns = p.table.columns;
  float* const out = p.out + token * columns;

  // Padding rows of a batch in a CUDA graph may carry any id: they get zeros, and no memory outside
  // the table is read.
  const int asked = p.ids[token] + p.offset;
  const int row = asked < p.rows ? asked : -1;
  if (columns % kQuad == 0) {
    const int step = kQuads * kQuad * static_cast<int>(blockDim.x);
    for (int first = 0; first < columns; first += step) embedQuads(p, row, out, first);
    return;
  }
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = row >= 0 ? p.scale * p.table.load(row, i) : 0.0f;
    out[i] = p.accumulate ? out[i] + value : value;
  }
}

}  // namespace perigee
