// Activation functions of the feed-forward network.
//
// Formula  out[i] = act(x[i]), or gated: act(x[i]) * x[F + i]
// Shapes   x [T, F], gated [T, 2F]; out [T, F] activation
// Work     tasks of consecutive rows; of few long rows, parts
// Bound    compute, about 20 instructions per vector for exp; then memory, 4 or 8 bytes read per
//          output
// Checked  test/contracts/device-ops.ts, activate
#include "activation.h"
#include "nonlinear.h"
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct ActivateParams {
  ThreadPool* pool;
  void* out;
  Int outFormat;
  const float* x;
  Int kind, gated;
  Int count, columns;  // F
};

namespace {

// An output takes about as long as so many floats that are copied.
constexpr int64_t kWorkFloats = 4;

}  // namespace

PERIGEE_EXPORT void perigee_activate(const ActivateParams* params) {
  const ActivateParams& p = *params;
  const int64_t columns = p.columns;
  const bool gated = p.gated;
  const ActivationWriter writer(p.out, formatOf(p.outFormat), columns);

  withNonlinearity(static_cast<Nonlinearity>(int64_t{p.kind}), [&](auto kind) {
    const auto part = [&](int64_t row, int64_t begin, int64_t end, int thread) {
      const float* const gate = p.x + row * columns * (gated ? 2 : 1);
      const float* const up = gate + columns;
      float* const out = writer.begin(row, p.pool->scratch<float>(columns, thread));
      forLanes(end - begin, [&](int64_t offset, int lanes) {
        const int64_t i = begin + offset;
        F32 y = nonlinear<kind()>(loadLanes(gate + i, lanes));
        if (gated) y *= loadLanes(up + i, lanes);
        storeLanes(out + i, y, lanes);
      });
      writer.finishPart(row, out, begin, end);
    };
    parallelParts(*p.pool, p.count, columns, kGroupColumns, kWorkFloats, part);
  });
}

}  // namespace perigee
