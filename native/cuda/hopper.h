// What Hopper (sm_90a) has beyond its predecessors to move data, beside barriers that count bytes
// (barrier.h): copies of boxes of a tensor by the copy engine, registers that move between roles.
// The products of its tensor cores are in warpgroup-products.h. PTX behind functions: an emulator
// puts its own file in this place (test/devices/cuda/emulator). Where the instructions are missing,
// kHopper is false and nothing here may be called.
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

/// Threads that issue products together: four warps, the first one's index a multiple of four.
constexpr int kWarpgroup = 128;

/// A place in shared memory, as instructions have it.
__device__ __forceinline__ uint32_t sharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// The block's dynamic shared memory from the first multiple of 1024 on, where a swizzled panel
/// begins; so the launch asks for 1024 bytes more.
__device__ __forceinline__ uint8_t* panelMemory() {
  extern __shared__ uint8_t memory[];
  return memory + (-sharedAddress(memory) & 1023u);
}

[[noreturn]] __device__ __forceinline__ void refuseToRun() {
  __trap();
  __builtin_unreachable();
}

/// Makes what this thread wrote to shared memory visible to tensor cores and copy engine; a barrier
/// among the writers follows.
__device__ __forceinline__ void publishShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Registers of each thread from here on; all warps of a warpgroup call it. Fewer, or more once
/// others gave theirs away.
template <int kRegisters>
__device__ __forceinline__ void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace perigee
