// Rope without a cache: rotates the first heads of each row in place (encoder models).
//
// Formula  pair (i, i + half) of a head is rotated by the angle of (position, i); dims from
//          `rotary` on stay as they are
// Shapes   x [T, C] f32, C >= H D; positions [T]; rope [positions, rotary]: cosines, then sines
// Work     one block per row, one thread per pair
// Bound    memory: 4 H rotary bytes read and written per token
// Checked  bench/gpu/smoke.mjs, rotateHeads
#include "params.h"

namespace perigee {

struct RotateHeadsParams {
  float* x;
  const int* positions;
  const float* rope;
  int columns;
  int heads;
  int headDim;
  int rotary;
};

PERIGEE_KERNEL perigee_rotate_heads(const __grid_constant__ RotateHeadsParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const int half = p.rotary / 2;
  float* const x = p.x + row * p.columns;
  const float* const angles = p.rope + static_cast<int64_t>(p.positions[row]) * p.rotary;
  for (int pair = threadIdx.x; pair < p.heads * half; pair += blockDim.x) {
    const int i = pair % half;
    float* const head = x + pair / half * p.headDim;
    const float cosine = angles[i];
    const float sine = angles[half + i];
    const float first = head[i];
    const float second = head[half + i];
    head[i] = first * cosine - second * sine;
    head[half + i] = second * cosine + first * sine;
  }
}

}  // namespace perigee
