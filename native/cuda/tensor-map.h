// Copies of boxes of a tensor to shared memory by the copy engine, from sm_90 on. Code for
// architectures before may include this and not use it. PTX behind functions: an emulator puts its
// own file in this place (test/devices/cuda/emulator).
#pragma once

#include "barrier.h"

namespace perigee {

/// A tensor in global memory for the copy engine, made by the driver (cuTensorMapEncodeTiled). Must
/// lie in the arguments of a kernel.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

__device__ __forceinline__ void prefetchMap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Orders copies that this thread starts behind writes to global memory that it has seen.
__device__ __forceinline__ void acceptGlobal() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Where a box begins in a tensor of five dimensions, the innermost first. Elements outside of the
/// tensor are zeros.
struct BoxPlace {
  int at[5];
};

/// Starts to copy one box to shared memory; its bytes count towards the phase of `barrier`.
__device__ __forceinline__ void copyBox(void* to, const TensorMap& map, const BoxPlace& from,
                                        Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(
          static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(&map), "r"(from.at[0]), "r"(from.at[1]), "r"(from.at[2]), "r"(from.at[3]),
      "r"(from.at[4]), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&barrier)))
      : "memory");
}

}  // namespace perigee
