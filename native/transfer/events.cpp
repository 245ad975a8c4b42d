#include "events.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace perigee {
namespace {

// Events are not kept for longer: JavaScript goes on with pieces while later ones travel.
constexpr uint64_t kBatchBytes = 4 << 20;
constexpr size_t kBatchEvents = 256;

}  // namespace

Events::Events() {
  if (pipe(pipe_) != 0) return;
  for (const int fd : pipe_) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
}

void Events::post(const Event* events, size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.insert(waiting_.end(), events, events + count);
  if (signalled_) return;
  signalled_ = true;
  const char byte = 1;
  // A full pipe is a pipe that wakes its reader already.
  if (write(pipe_[1], &byte, 1) < 0) return;
}

void EventBatch::moved(uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ >= kBatchBytes || kept_.size() >= kBatchEvents) flush();
}

void EventBatch::flush() {
  bytes_ = 0;
  if (kept_.empty()) return;
  events_.post(kept_.data(), kept_.size());
  kept_.clear();
}

int Events::drain(Event* out, int max) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int count = std::min(max, int(waiting_.size()));
  std::copy_n(waiting_.begin(), count, out);
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  if (waiting_.empty()) signalled_ = false;
  return count;
}

}  // namespace perigee
