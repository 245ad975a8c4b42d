// Rope without a cache: rotates the first heads of each row in place (encoder models).
//
// Formula  pair (i, i + half) of a head is rotated by the angle of (position, i); dims from
//          `rotary` on stay as they are
// Shapes   x [T, C], C >= H D; positions [T]; rope [positions, rotary]: cosines, then sines
// Work     tasks of consecutive rows
// Bound    memory: 4 H rotary bytes read and written per token
// Checked  test/contracts/device-ops/attention.ts, rotateHeads
#include "params.h"
#include "rope.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct RotateHeadsParams {
  ThreadPool* pool;
  float* x;
  const int32_t* positions;
  const float* rope;
  Int count, columns;
  Int heads, headDim, rotary;
};

PERIGEE_EXPORT void perigee_rotate_heads(const RotateHeadsParams* params) {
  const RotateHeadsParams& p = *params;
  const int64_t heads = p.heads, headDim = p.headDim, rotary = p.rotary;
  parallelRows(*p.pool, p.count, heads * rotary, [&](int64_t row, int) {
    float* const x = p.x + row * p.columns;
    const float* const angles = p.rope + int64_t{p.positions[row]} * rotary;
    for (int64_t head = 0; head < heads; ++head) rotateHead(x + head * headDim, angles, rotary / 2);
  });
}

}  // namespace perigee
