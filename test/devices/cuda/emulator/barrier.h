// The emulator's native/cuda/barrier.h: copies are done when they are started, and who waits lets the
// block's other threads run.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "numbers.h"

namespace perigee {

/// Until every lane of the warp, which all wait together, has seen `isOver`; the block's other
/// threads run meanwhile.
template <typename IsOver>
inline void emulatedWait(const char* what, const IsOver& isOver) {
  for (int tries = 0; tries < 100000; ++tries) {
    if (__all_sync(0xffffffffu, isOver())) return;
  }
  std::fprintf(stderr, "emulator: a warp waits in vain at %s\n", what);
  std::_Exit(1);
}

struct Barrier {
  int16_t arrivals;
  int16_t missing;
  unsigned phase : 1;
  int bytes : 31;

  void init(int count) {
    arrivals = missing = static_cast<int16_t>(count);
    phase = 0;
    bytes = 0;
  }
  void expectBytes(int count) {
    bytes += count;
    arrive();
  }
  void arrive() {
    --missing;
    passOn();
  }
  void copied(int count) {
    bytes -= count;
    passOn();
  }
  void wait(int parity) {
    emulatedWait("a barrier", [&] { return static_cast<int>(phase) != parity; });
  }

 private:
  void passOn() {
    if (missing > 0 || bytes != 0) return;
    missing = arrivals;
    phase = phase == 0 ? 1 : 0;
  }
};
static_assert(sizeof(Barrier) == 8, "as on the hardware");

inline void publishBarriers() {}

inline void copyBulk(void* to, const void* from, int bytes, Barrier& barrier) {
  std::memcpy(to, from, static_cast<unsigned>(bytes));
  barrier.copied(bytes);
}

struct EmulatedMeeting {
  int arrived;
  int round;
};
inline EmulatedMeeting emulatedMeetings[16];

template <int kThreads>
inline void namedBarrierArrive(int barrier) {
  EmulatedMeeting& meeting = emulatedMeetings[barrier];
  if (++meeting.arrived < kThreads) return;
  meeting.arrived = 0;
  ++meeting.round;
}
template <int kThreads>
inline void namedBarrierSync(int barrier) {
  const int round = emulatedMeetings[barrier].round;
  namedBarrierArrive<kThreads>(barrier);
  emulatedWait("a named barrier", [&] { return emulatedMeetings[barrier].round != round; });
}

}  // namespace perigee
