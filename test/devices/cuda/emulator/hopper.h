// The emulator's native/cuda/hopper.h: copies are done when they are started, and who waits lets
// the block's other threads run. A tensor map is what the emulated driver encodes (driver.cpp).
#pragma once

#include <cstdlib>

#include "barrier.h"
#include "numbers.h"

namespace perigee {

constexpr bool kHopper = true;
constexpr int kWarpgroup = 128;

struct TensorMap {
  uint64_t address;
  uint64_t strides[5];  // bytes; the innermost one is an element's
  uint32_t sizes[5];
  uint16_t box[5];
  uint16_t swizzled;
  char unused[48];
};
static_assert(sizeof(TensorMap) == 128, "as the driver's");

/// Of the largest block. Addresses begin where the hardware's do, so that 0 is none.
constexpr uint32_t kSharedStart = 1024;
alignas(1024) inline uint8_t emulatedShared[227 << 10];

inline uint32_t sharedAddress(const void* at) {
  return kSharedStart + static_cast<uint32_t>(static_cast<const uint8_t*>(at) - emulatedShared);
}
inline uint8_t* sharedPlace(uint32_t address) { return emulatedShared + (address - kSharedStart); }
inline uint8_t* panelMemory() { return emulatedShared; }

[[noreturn]] inline void refuseToRun() { std::abort(); }

inline void publishShared() {}
inline void acceptGlobal() {}
inline void prefetchMap(const TensorMap&) {}

struct BoxPlace {
  int at[5];
};

/// Element by element, those outside of the tensor as zeros, with the 128-byte swizzle of
/// addresses.
inline void copyBox(void* to, const TensorMap& map, const BoxPlace& from, Barrier& barrier) {
  const uint32_t start = sharedAddress(to);
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
    uint32_t place = start + 2 * static_cast<uint32_t>(i);
    if (map.swizzled != 0) place ^= (place >> 7 & 7) << 4;
    uint16_t element = 0;
    if (inside) std::memcpy(&element, reinterpret_cast<const void*>(address), sizeof(element));
    std::memcpy(sharedPlace(place), &element, sizeof(element));
  }
  barrier.copied(2 * count);
}

template <int kRegisters>
inline void shrinkRegisters() {}
template <int kRegisters>
inline void growRegisters() {}

}  // namespace perigee
