// Attention of prompt chunks to keys and values in blocks, by Hopper's tensor cores.
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over begin <= p <= own
// Shapes   query [T, H, D] f32, out [T, H D] bf16; cache: kv-pool.h in bf16 or f16, D 64 or 128,
//          blocks of 8 to 128 tokens, a power of two; queryStarts [S + 1], contextLengths [S],
//          blockTables [S, M]
// Work     A job is a kv head and a tile of 128 rows, row = token * group + head in the group, so
//          that a key read once serves its group. As many blocks as run at once take one job after
//          the other (attend-prefill-wgmma-queue.h). Two warpgroups of 64 rows each multiply; a
//          warp has the copy engine bring tiles of 128 keys and values, two of each under way, and
//          three bring the next job's queries (attend-prefill-wgmma-producer.h). Tiles go from the
//          last position to the first. Scores of a tile are under way on the tensor cores together
//          with the product of the weights before and their values; warpgroups take turns, so that
//          one multiplies while the other exponentiates (Shah et al. 2024, "FlashAttention-3").
//          Sums over values are touched only where a row of the warp has a new maximum
//          (softmax-tile.h)
// Bound    Tensor cores: 4 D operations per query head and visible pair. Beside them, per tile of
//          64 rows: 8192 exp2, which take half as many cycles as its products with D 128; and keys
//          and values from the L2 cache, 512 bytes per position and 128 rows
// Ladder   on one H200, 32 heads of 128 and 8 kv heads, ms of 1 prompt of 8192 tokens, 16 of 512,
//          4 of 2048, and of the last 2048 of 32768
//          0.934  0.188  0.334  1.810  sums shrink where a maximum rises by a factor of 2^8,
//                                      weights behind the wait for sums, no turns
//          0.889  0.191  0.306  1.543  weights before that wait
//          0.838  0.179  0.290  1.536  turns among the warpgroups
//          0.833  0.162  0.284  1.521  sums shrink with every new maximum
// Checked  bench/gpu/cases/attend-prefill-wgmma.mjs, bench/gpu/wgmma-probe.mjs, and emulated in
//          test/devices/cuda/ops/attend-prefill-wgmma.test.ts: queries and weights are rounded to
//          the cache's 16 bits, so an output is within 2^-7 of the values' size of its definition
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

    // From one lane, so that the compiler knows that a warp has one role.
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
