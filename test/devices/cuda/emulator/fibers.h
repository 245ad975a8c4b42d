// Threads of one block as fibers of one system thread: they take turns at barriers.
#pragma once

#include <functional>

#include "emulated-thread.h"

namespace emulator {

/// Runs `kernel` once for every thread of a block, as `thread.threadIdx` says which. Exits the
/// process with a message when threads wait for each other in vain. Odd blocks run their threads
/// backwards: a missing barrier then gives another result. PERIGEE_EMULATED_ORDER has other orders:
///   backwards  even blocks, and odd ones forwards
///   a number   warps run ahead of each other, lanes of a warp in any order, and copies end when
///              they are waited for or before, all by chance, which begins with that number
void runBlock(EmulatedThread& thread, const std::function<void()>& kernel);

}  // namespace emulator
