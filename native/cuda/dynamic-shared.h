// Dynamic shared memory, sized by the launch (LaunchShape.sharedBytes): the only way to use more
// than 48 KiB. An emulator substitutes its own file (test/devices/cuda/emulator).
#pragma once

namespace perigee {

extern __shared__ __align__(1024) unsigned char dynamicSharedMemory[];

/// Its first byte, aligned to 1024 bytes.
__device__ __forceinline__ unsigned char* dynamicShared() { return dynamicSharedMemory; }

}  // namespace perigee
