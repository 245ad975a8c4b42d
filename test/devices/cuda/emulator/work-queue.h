// Work that was enqueued and not yet done: a GPU is late, and so is the emulator, so that memory
// which is reused too early is seen.
#pragma once

#include <functional>
#include <vector>

namespace emulator {

using Work = std::function<void()>;

/// Enqueues work; while a stream captures, keeps it for the graph instead.
void enqueue(Work work);

/// Does everything that was enqueued.
void finish();

/// Says that calls from now on are kept, and gives what was kept.
void beginCapture();
std::vector<Work> endCapture();

}  // namespace emulator
