// The emulator's native/cuda/hopper.h: copies are done when they are started, and who waits lets
// the block's other threads run. A tensor map is what the emulated driver encodes (driver.cpp).
#pragma once

#include <cstdlib>

#include "barrier.h"
#include "numbers.h"
#include "tensor-map.h"

namespace perigee {

constexpr bool kHopper = true;
constexpr int kWarpgroup = 128;

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

template <int kRegisters>
inline void shrinkRegisters() {}
template <int kRegisters>
inline void growRegisters() {}

}  // namespace perigee
