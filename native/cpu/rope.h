// Rotation of a head's pairs by the angles of a position.
#pragma once

#include "rows.h"

namespace perigee {

/// Rotates the pairs (i, i + half) of `head` in place. `cosines`: half of them, then their sines.
inline void rotateHead(float* head, const float* cosines, int64_t half) {
  const float* const sines = cosines + half;
  forLanes(half, [&](int64_t i, int lanes) {
    const F32 cos = loadLanes(cosines + i, lanes), sin = loadLanes(sines + i, lanes);
    const F32 a = loadLanes(head + i, lanes), b = loadLanes(head + half + i, lanes);
    storeLanes(head + i, a * cos - b * sin, lanes);
    storeLanes(head + half + i, b * cos + a * sin, lanes);
  });
}

}  // namespace perigee
