// The emulator's native/cuda/tensor-map.h: copies are done when they are started. A tensor map is
// what the emulated driver encodes (driver.cpp).
#pragma once

#include <cstdint>

#include "barrier.h"

namespace perigee {

struct TensorMap {
  uint64_t address;
  uint64_t strides[5];  // bytes; the innermost one is an element's
  uint32_t sizes[5];
  uint16_t box[5];
  uint16_t swizzled;
  char unused[48];
};
static_assert(sizeof(TensorMap) == 128, "as the driver's");

inline void prefetchMap(const TensorMap&) {}
inline void acceptGlobal() {}

struct BoxPlace {
  int at[5];
};

/// Element by element, those outside of the tensor as zeros, with the 128-byte swizzle of
/// addresses: shared memory begins at a multiple of 1024.
inline void copyBox(void* to, const TensorMap& map, const BoxPlace& from, Barrier& barrier) {
  const auto start = reinterpret_cast<std::uintptr_t>(to);
  int count = 1;
  for (int i = 0; i < 5; ++i) count *= map.box[i];
  for (int i = 0; i < count; ++i) {
    uint64_t address = map.address;
    bool inside = true;
    for (int dim = 0, rest = i; dim < 5; rest /= map.box[dim], ++dim) {
      const int64_t at = from.at[dim] + rest % map.box[dim];
      inside = inside && at >= 0 && at < static_cast<int64_t>(map.sizes[dim]);
      address += static_cast<uint64_t>(at) * map.strides[dim];
    }
    std::uintptr_t place = start + 2 * static_cast<std::uintptr_t>(i);
    if (map.swizzled != 0) place ^= (place >> 7 & 7) << 4;
    uint16_t element = 0;
    if (inside) std::memcpy(&element, reinterpret_cast<const void*>(address), sizeof(element));
    std::memcpy(reinterpret_cast<void*>(place), &element, sizeof(element));
  }
  barrier.copied(2 * count);
}

}  // namespace perigee
