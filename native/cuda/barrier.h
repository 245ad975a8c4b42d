// Hopper's mbarriers in shared memory, which count arrivals and bytes, and bulk copies (TMA) that
// signal them. Code for architectures before sm_90 may include this header but not call it.
//
// The PTX is wrapped in functions, so that an emulator can substitute its own file
// (test/devices/cuda/emulator).
#pragma once

#include "numbers.h"

namespace perigee {

/// An mbarrier. A phase completes after `arrivals` arrivals and all bytes announced by expectBytes.
/// The phase parity alternates and starts with 0.
struct Barrier {
  uint64_t state;

  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }

  /// Arrives, and keeps the phase open until `bytes` more bytes were copied.
  __device__ void expectBytes(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
        : "memory");
  }

  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }

  /// Waits until the phase of this parity has completed; returns at once for the parity before the
  /// first phase. Faults after what must be seconds, since an error is better than a hung GPU. The
  /// fault is a store to address 0: with a trap, ptxas ignores setmaxnreg and spills.
  __device__ void wait(int parity) {
    for (int tries = 0; !passed(parity); ++tries) {
      if (tries == kTriesMax) asm volatile("st.global.u32 [%0], 0;" ::"l"(uint64_t{0}) : "memory");
    }
  }

 private:
  __device__ uint32_t address() const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(this));
  }

  static constexpr int kTriesMax = 1 << 25;

  /// Suspends the thread up to a time limit set by the hardware.
  __device__ bool passed(int parity) {
    uint32_t passed;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(passed)
        : "r"(address()), "r"(parity)
        : "memory");
    return passed != 0;
  }
};

/// Makes initialised barriers visible to TMA; the caller must follow with __syncthreads.
__device__ __forceinline__ void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Starts an asynchronous copy of `bytes` bytes to shared memory. Size and both addresses are
/// multiples of 16. The bytes count towards the current phase of `barrier`.
__device__ __forceinline__ void copyBulk(void* to, const void* from, int bytes, Barrier& barrier) {
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const auto counted = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(target), "l"(from), "r"(bytes), "r"(counted)
      : "memory");
}

/// Named barrier 1 to 15 for `kThreads` threads, whole warps. Some threads may only arrive, without
/// waiting.
template <int kThreads>
__device__ __forceinline__ void namedBarrierSync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void namedBarrierArrive(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace perigee
