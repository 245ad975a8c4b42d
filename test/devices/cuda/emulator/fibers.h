// Threads of one block as fibers of one system thread: they take turns at barriers.
#pragma once

#include <functional>

#include "emulated-thread.h"

namespace emulator {

/// Runs `kernel` once for every thread of a block, as `thread.threadIdx` says which. Exits the process with a message when threads wait for each other in
/// vain. Odd blocks run their threads backwards: a missing barrier then gives another result.
void runBlock(EmulatedThread& thread, const std::function<void()>& kernel);

}  // namespace emulator
