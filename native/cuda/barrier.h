// Barriers in shared memory that count arrivals and bytes, and copies of whole stretches by the
// copy engine that arrive at them. Code for architectures before sm_90 may include this and not use
// it.
// PTX behind functions: an emulator puts its own file in this place (test/devices/cuda/emulator).
#pragma once

#include "numbers.h"

namespace perigee {

/// A barrier in shared memory for phases of `arrivals` arrivals each, and of the bytes that
/// expectBytes announced. Phases alternate between parities, the first one's is 0.
struct Barrier {
  uint64_t state;

  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }

  /// Arrives, and holds the phase open until `bytes` more were copied.
  __device__ void expectBytes(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
        : "memory");
  }

  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }

  /// Until the phase of this parity has passed; at once for the parity before the first phase's.
  /// Faults after what must be seconds: an error is better than a GPU that hangs. By a store to
  /// nowhere, since a trap's way out of the kernel makes ptxas forget setmaxnreg and spill.
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

  /// Sleeps up to a limit that the hardware has.
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

/// Makes barriers that this thread initialised visible to the copy engine; a __syncthreads follows.
__device__ __forceinline__ void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Starts to copy `bytes` bytes, a multiple of 16 from and to multiples of 16, to shared memory;
/// they count towards the phase of `barrier`.
__device__ __forceinline__ void copyBulk(void* to, const void* from, int bytes, Barrier& barrier) {
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const auto counted = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(target), "l"(from), "r"(bytes), "r"(counted)
      : "memory");
}

/// A barrier among `kThreads` threads, whole warps, by a number from 1 to 15. Some may only arrive.
template <int kThreads>
__device__ __forceinline__ void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void arriveAt(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace perigee
