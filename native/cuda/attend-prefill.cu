// Prefill attention kernels for bf16 caches, documented in attend-prefill.h.
#include "attend-prefill-loop.h"

namespace perigee {

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Bf16, 64>::kThreads)
perigee_attend_prefill_bf16_64(const __grid_constant__ PrefillParams p) {
  attendPrefill<Bf16, 64>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Bf16, 96>::kThreads)
perigee_attend_prefill_bf16_96(const __grid_constant__ PrefillParams p) {
  attendPrefill<Bf16, 96>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Bf16, 128>::kThreads)
perigee_attend_prefill_bf16_128(const __grid_constant__ PrefillParams p) {
  attendPrefill<Bf16, 128>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Bf16, 256>::kThreads)
perigee_attend_prefill_bf16_256(const __grid_constant__ PrefillParams p) {
  attendPrefill<Bf16, 256>(p);
}

}  // namespace perigee
