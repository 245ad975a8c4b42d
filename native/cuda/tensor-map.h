// TMA copies of tensor boxes to shared memory, from sm_90 on. Code for older architectures may
// include this header but not call it. The PTX is wrapped in functions, so that an emulator can
// substitute its own file (test/devices/cuda/emulator).
#pragma once

#include "barrier.h"

namespace perigee {

/// A TMA descriptor of a tensor in global memory, made by the driver (cuTensorMapEncodeTiled). Must
/// be a kernel argument.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

__device__ __forceinline__ void prefetchMap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Orders this thread's later TMA copies after writes to global memory that it has observed.
__device__ __forceinline__ void acceptGlobal() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Coordinates of a box in a tensor of five dimensions, innermost first. Elements outside the
/// tensor are read as zeros.
struct BoxPlace {
  int at[5];
};

/// Starts to copy one box to shared memory; its bytes count towards the current phase of `barrier`.
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
