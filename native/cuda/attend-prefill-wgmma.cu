// Prefill attention on Hopper's tensor cores (wgmma), after FlashAttention-3.
//
//    producer warpgroup                          consumer warpgroups 0 and 1, 64 rows each
//      warp 0     TMA keys   -> [K][K] ring  --wgmma--> scores [64, 128]  --exp2--> weights
//      warp 0     TMA values -> [V][V] ring  --wgmma--> sums [64, D] += weights . values
//      warps 1-3  queries    -> [Q][Q] ring
//
//    time ->     warpgroup 0:  QK(i)  PV(i-1) | softmax(i)      | QK(i+1) PV(i) | ...
//                warpgroup 1:  softmax(i-1)   | QK(i)  PV(i-1)  | softmax(i)    | ...
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over begin <= p <= own
//          position
// Shapes   query [T, H, D] f32, out [T, H D] bf16; cache: kv-pool.h in bf16 or f16, D 64 or 128,
//          block size 8 to 128 tokens, a power of two; queryStarts [S + 1], contextLengths [S],
//          blockTables [S, M]
// Work     A job is a kv head and a tile of 128 rows, with row = token * group + head in the group,
//          so that a key read once serves all query heads of its group. The kernel is persistent:
//          as many blocks as fit the GPU take jobs from a queue (attend-prefill-wgmma-queue.h). In
//          a block two consumer warpgroups multiply 64 rows each. A producer warp loads tiles of
//          128 keys and values by TMA, with two stages of each, and three more warps load the next
//          job's queries (attend-prefill-wgmma-producer.h). Tiles go from the last position to the
//          first. The scores of a tile run on the tensor cores together with the product of the
//          previous weights and values. The warpgroups alternate, so that one multiplies while the
//          other computes exponentials (Shah et al. 2024, "FlashAttention-3"). The sums over values
//          are rescaled only if a row of the warp has a new maximum (softmax-tile.h).
// Bound    Tensor cores: 4 D operations per query head and visible pair. Beside these, per tile of
//          64 rows: 8192 exp2, which take half as many cycles as the products with D 128; and keys
//          and values from the L2 cache, 512 bytes per position and 128 rows
// Versions ms on one H200, 32 heads of 128 and 8 kv heads; prompts: 1 of 8192 tokens, 16 of 512,
//          4 of 2048, and the last 2048 of 32768
//          0.934  0.188  0.334  1.810  rescaling only when the maximum rises by a factor of 2^8,
//                                      weights packed after the wait for sums, no ping-pong
//          0.889  0.191  0.306  1.543  weights packed before that wait
//          0.838  0.179  0.290  1.536  ping-pong between the warpgroups
//          0.833  0.162  0.284  1.521  rescaling at every new maximum
// Checked  bench/gpu/cases/attend-prefill-wgmma.mjs, bench/gpu/wgmma-probe.mjs, and emulated in
//          test/devices/cuda/ops/attend-prefill-wgmma.test.ts. Queries and weights are rounded to
//          the cache's 16-bit type, so an output differs from its definition by at most 2^-7 of the
//          values' magnitude
#include "attend-prefill-wgmma-consumer.h"
#include "attend-prefill-wgmma-producer.h"

namespace perigee {

template <int kHeadDim, typename T, bool kRuns = kHopper>
__device__ __forceinline__ void attendPrefill(const AttendPrefillWgmmaParams& p) {
  if constexpr (kRuns) {
    letNextStart();
    auto& memory = *reinterpret_cast<PrefillMemory<kHeadDim>*>(panelMemory());
    if (threadIdx.x == 0) {
      prefetchMap(p.cache);
      memory.open();
    }
    waitForPrevious();
    __syncthreads();

    // Broadcast from one lane, so that the compiler knows that all lanes of a warp have the same
    // role.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarp, 0);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (warp >= kConsumerWarps) {
      shrinkRegisters<kProducerRegisters>();
      if (warp == kConsumerWarps) {
        acceptGlobal();
        CacheCopier<kHeadDim>(p, memory, lane).run();
      } else {
        QueryLoader<kHeadDim, T>{p, memory, warp - kConsumerWarps - 1, lane}.run();
      }
    } else {
      growRegisters<kConsumerRegisters>();
      const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
      Consumer<kHeadDim, T>(p, memory, warp / (kWarpgroup / kWarp), thread).run();
    }
  } else {
    refuseToRun();
  }
}

PERIGEE_KERNEL __launch_bounds__(kThreads, 1)
    perigee_attend_prefill_wgmma_bf16_64(const __grid_constant__ AttendPrefillWgmmaParams p) {
  attendPrefill<64, Bf16>(p);
}

PERIGEE_KERNEL __launch_bounds__(kThreads, 1)
    perigee_attend_prefill_wgmma_bf16_128(const __grid_constant__ AttendPrefillWgmmaParams p) {
  attendPrefill<128, Bf16>(p);
}

PERIGEE_KERNEL __launch_bounds__(kThreads, 1)
    perigee_attend_prefill_wgmma_f16_64(const __grid_constant__ AttendPrefillWgmmaParams p) {
  attendPrefill<64, F16>(p);
}

PERIGEE_KERNEL __launch_bounds__(kThreads, 1)
    perigee_attend_prefill_wgmma_f16_128(const __grid_constant__ AttendPrefillWgmmaParams p) {
  attendPrefill<128, F16>(p);
}

}  // namespace perigee
