// Prefill attention kernels for 8-bit caches, documented in attend-prefill.h. Q8 stands for both i8
// and fp8: the kernels check the cache's element type when they widen it.
#include "attend-prefill-loop.h"

namespace perigee {

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Q8, 64>::kThreads)
perigee_attend_prefill_scaled_64(const __grid_constant__ PrefillParams p) {
  attendPrefill<Q8, 64>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Q8, 96>::kThreads)
perigee_attend_prefill_scaled_96(const __grid_constant__ PrefillParams p) {
  attendPrefill<Q8, 96>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Q8, 128>::kThreads)
perigee_attend_prefill_scaled_128(const __grid_constant__ PrefillParams p) {
  attendPrefill<Q8, 128>(p);
}

PERIGEE_KERNEL __launch_bounds__(PrefillShape<Q8, 256>::kThreads)
perigee_attend_prefill_scaled_256(const __grid_constant__ PrefillParams p) {
  attendPrefill<Q8, 256>(p);
}

}  // namespace perigee
