// Embedding lookup: out[t] = scale * table[ids[t] + offset], optionally added to out[t].
//
// T tokens · V rows of the table · E columns
//
// Shapes  out [T, E] f32 · ids [T] i32 · table [V, E] packed (matrix.h) or plain f32
// Work    tasks of consecutive tokens
// Bound   memory: the E words of a packed row lie in as many cache lines
// Checked test/devices/cpu/linear-embed.test.ts
#include "packed-matrix.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

namespace {

struct EmbedParams {
  ThreadPool* pool;
  float* out;
  const int32_t* ids;
  const void* table;
  Int format;  // -1: plain f32 rows
  Int count;
  Int rows;
  Int columns;
  Float scale;
  Int offset;
  Int accumulate;
};

// A word of a packed row takes about as long as so many floats in a row.
constexpr int64_t kWorkFloats = 4;

/// Clamps an id outside the table to the nearest row. Ids of requests are checked before they get
/// here.
int64_t clampRow(int64_t row, int64_t rows) { return row < 0 ? 0 : row < rows ? row : rows - 1; }

void embedRow(const EmbedParams& params, int64_t token, float* values) {
  const int64_t columns = params.columns;
  const int64_t row = clampRow(params.ids[token] + params.offset, params.rows);
  const float* source = values;
  if (params.format < 0) {
    source = static_cast<const float*>(params.table) + row * columns;
  } else {
    readMatrixRow(params.table, {formatOf(params.format), params.rows, columns}, row, values);
  }
  const F32 scale = broadcast(params.scale);
  float* const out = params.out + token * columns;
  for (int64_t i = 0; i < columns; i += kLanes) {
    const int lanes = lanesLeft(columns - i);
    const F32 value = loadFirst(source + i, lanes);
    const F32 kept = params.accumulate != 0 ? loadFirst(out + i, lanes) : F32{};
    storeFirst(out + i, fma(value, scale, kept), lanes);
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_embed(const EmbedParams* params) {
  const int64_t floats = params->columns * kWorkFloats;
  parallelRows(*params->pool, params->count, floats, [&](int64_t token, int thread) {
    embedRow(*params, token, params->pool->scratch<float>(params->columns, thread));
  });
}

}  // namespace perigee
