// Runs kernels one after the other whose arguments were kept: a step's ops in one call.
//
//    program   [count] calls ( kernel, offset )   then the params structs, at their offsets
//
// Bound     latency: a call from TypeScript costs about 1 us with its checks, and a step of the
//           bundled model has 110
// Checked   test/devices/cpu/cpu-device.test.ts, the same bits as op by op
#include "params.h"

namespace perigee {

namespace {

struct ReplayedCall {
  void (*kernel)(const void* params);
  Int offset;
};

}  // namespace

PERIGEE_EXPORT void perigee_replay(const uint8_t* program, int32_t count) {
  const auto* const calls = reinterpret_cast<const ReplayedCall*>(program);
  for (int32_t i = 0; i < count; ++i) calls[i].kernel(program + calls[i].offset);
}

}  // namespace perigee
