// The emulator's native/cuda/dynamic-shared.h: as much as a block may ask for.
#pragma once

namespace perigee {

inline unsigned char* dynamicShared() {
  alignas(1024) static unsigned char memory[227 << 10];
  return memory;
}

}  // namespace perigee
