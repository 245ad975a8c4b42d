// Prefill attention kernels for f16 caches, documented in attend-prefill.h.
#include "attend-prefill-loop.h"

namespace perigee {

PERIGEE_KERNEL __launch_bounds__(PrefillShape<F16, 64>::kThreads)
perigee_attend_prefill_f16_64(const __grid_constant__ PrefillParams p) {
  attendPrefill<F16, 64>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<F16, 96>::kThreads)
perigee_attend_prefill_f16_96(const __grid_constant__ PrefillParams p) {
  attendPrefill<F16, 96>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<F16, 128>::kThreads)
perigee_attend_prefill_f16_128(const __grid_constant__ PrefillParams p) {
  attendPrefill<F16, 128>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<F16, 256>::kThreads)
perigee_attend_prefill_f16_256(const __grid_constant__ PrefillParams p) {
  attendPrefill<F16, 256>(p);
}

}  // namespace perigee
