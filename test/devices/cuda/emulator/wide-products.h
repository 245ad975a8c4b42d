// The emulator's native/cuda/wide-products.h: see its warpgroup-products.h.
#pragma once

#include "warpgroup-products.h"

namespace perigee {

template <int kCount>
inline void multiplyShared(float (&sums)[kCount], uint64_t a, uint64_t b, bool adds) {
  WarpgroupProducts<Bf16>::ofShared(sums, a, b, adds);
}

}  // namespace perigee
