// Shared memory whose size the launch names (LaunchShape.sharedBytes): the only way to more than
// 48 KiB. An emulator puts its own in this place (test/devices/cuda/emulator).
#pragma once

namespace perigee {

extern __shared__ __align__(1024) unsigned char dynamicSharedMemory[];

/// Its beginning, at a multiple of 1024 bytes.
__device__ __forceinline__ unsigned char* dynamicShared() { return dynamicSharedMemory; }

}  // namespace perigee
