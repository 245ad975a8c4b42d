// Hopper (sm_90a) features for data movement beside mbarriers (barrier.h): TMA tensor copies and
// register reallocation between warpgroups. wgmma is in warpgroup-products.h. Without these
// instructions kHopper is false and nothing here may be called.
//
// The PTX is wrapped in functions, so that an emulator can substitute its own file
// (test/devices/cuda/emulator).
#pragma once

#include "barrier.h"
#include "numbers.h"
#include "tensor-map.h"

namespace perigee {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kHopper = true;
#else
constexpr bool kHopper = false;
#endif

/// Threads that issue wgmma together: four warps, the index of the first a multiple of four.
constexpr int kWarpgroup = 128;

/// A shared memory address in the 32-bit form that PTX instructions take.
__device__ __forceinline__ uint32_t sharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// The block's dynamic shared memory from the first multiple of 1024 bytes on, the alignment of a
/// swizzled panel. So the launch must request 1024 bytes more.
__device__ __forceinline__ uint8_t* panelMemory() {
  extern __shared__ uint8_t memory[];
  return memory + (-sharedAddress(memory) & 1023u);
}

[[noreturn]] __device__ __forceinline__ void refuseToRun() {
  __trap();
  __builtin_unreachable();
}

/// Makes this thread's writes to shared memory visible to wgmma and TMA; a barrier among the
/// writing threads must follow.
__device__ __forceinline__ void publishShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Sets the registers per thread from here on; all warps of a warpgroup call it. `grow` waits until
/// other warpgroups have released enough registers.
template <int kRegisters>
__device__ __forceinline__ void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace perigee
