// Runs kernels one after the other whose arguments were kept: a step's ops in one call.
//
//    program   [count] calls ( kernel, offset )   then the params structs, at their offsets
//
//              while a product runs and until the next one begins, threads that have nothing to do
//              read the beginning of the next one's weights into their caches
//
// Bound     latency: a call from TypeScript costs about 1 us with its checks, and a step of the
//           bundled model has 110
// Checked   test/devices/cpu/cpu-device.test.ts, the same bits as op by op
#include "linear-job.h"

namespace perigee {

namespace {

struct ReplayedCall {
  void (*kernel)(const void* params);
  Int offset;
};

class Program {
 public:
  Program(const uint8_t* memory, int32_t count)
      : memory_(memory), calls_(reinterpret_cast<const ReplayedCall*>(memory)), count_(count) {}

  void run() const {
    for (int32_t i = 0; i < count_; ++i) {
      // While the ops between two products run, often on one thread, memory would rest.
      if (isProduct(i)) readAheadAfter(i);
      calls_[i].kernel(paramsOf(i));
    }
  }

 private:
  const uint8_t* paramsOf(int32_t i) const { return memory_ + calls_[i].offset; }

  bool isProduct(int32_t i) const {
    return calls_[i].kernel == reinterpret_cast<void (*)(const void*)>(&perigee_linear);
  }

  /// The last product is followed by the first: most steps are as the one before.
  void readAheadAfter(int32_t product) const {
    int32_t next = product;
    do next = (next + 1) % count_; while (!isProduct(next));
    readAhead(*reinterpret_cast<const LinearParams*>(paramsOf(next)));
  }

  const uint8_t* memory_;
  const ReplayedCall* calls_;
  int32_t count_;
};

}  // namespace

PERIGEE_EXPORT void perigee_replay(const uint8_t* program, int32_t count) {
  Program(program, count).run();
}

}  // namespace perigee
