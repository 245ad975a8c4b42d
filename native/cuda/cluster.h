// Blocks of a cluster (sm_90a), which run beside each other and reach each other's shared memory:
// what one of them brings may land in all. PTX behind functions: an emulator, whose blocks run one
// after the other, puts its own file in this place, with clusters of one block.
#pragma once

#include "barrier.h"
#include "tensor-map.h"

namespace perigee {

constexpr int kClusterBlocks = 2;

/// Whether blocks of a kernel may wait for each other, as long as who waits has done all that
/// others wait for: blocks start in the order of their numbers, and neighbours run together.
constexpr bool kBlocksMeet = true;

/// Stands in front of a kernel's name.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PERIGEE_CLUSTER __cluster_dims__(::perigee::kClusterBlocks, 1, 1)
#else
#define PERIGEE_CLUSTER
#endif

/// Which block of its cluster this is.
__device__ __forceinline__ int clusterRank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

/// Waits for all threads of the cluster but those that have ended.
__device__ __forceinline__ void meetCluster() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// Until a count in global memory, which other blocks raise, has reached `least`; what they wrote
/// before is seen. Faults after what must be seconds, as Barrier.wait does.
__device__ __forceinline__ void waitForCount(const uint32_t& count, uint32_t least) {
  constexpr int kTriesMax = 1 << 24;
  uint32_t found = 0;
  for (int tries = 0; found < least; ++tries) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(&count) : "memory");
    if (tries == kTriesMax) asm volatile("st.global.u32 [%0], 0;" ::"l"(uint64_t{0}) : "memory");
  }
}

/// Arrives at a barrier as block `rank` of the cluster has it.
__device__ __forceinline__ void arriveInCluster(Barrier& barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(&barrier))),
      "r"(rank)
      : "memory");
}

/// As copyBox, to the same place in every block of the cluster; arrives at each one's barrier.
__device__ __forceinline__ void copyBoxToCluster(void* to, const TensorMap& map,
                                                 const BoxPlace& from, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(
          static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(&map), "r"(from.at[0]), "r"(from.at[1]), "r"(from.at[2]), "r"(from.at[3]),
      "r"(from.at[4]), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&barrier))),
      "h"(static_cast<uint16_t>((1 << kClusterBlocks) - 1))
      : "memory");
}

}  // namespace perigee
