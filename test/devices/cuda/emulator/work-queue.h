// Work that was enqueued and not yet done: a GPU is late, and so is the emulator, so that memory
// which is reused too early is seen.
#pragma once

#include <functional>
#include <vector>

namespace emulator {

using Work = std::function<void()>;

/// Enqueues work in a stream; while one captures, keeps it for the graph instead.
void enqueue(void* stream, Work work);

/// Does everything that was enqueued: each stream in its order, one as far ahead of the others as
/// events allow, and each time another one.
void finish();

/// Says that calls from now on are kept, and gives what was kept.
void beginCapture();
std::vector<Work> endCapture();

}  // namespace emulator
