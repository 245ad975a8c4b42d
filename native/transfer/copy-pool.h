// Threads that copy between memory of this process, mapped memory of others among it. They live as
// long as the process.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "events.h"

namespace perigee {

struct CopyRow {
  const char* from;
  char* to;
  uint64_t bytes;
};

struct CopyJob {
  uint64_t tag;
  // Where the owner of the source says that it is still valid: the word must equal `token`.
  const std::atomic<uint64_t>* word;
  uint64_t token;
  std::atomic<int> left;
};

class CopyPool {
 public:
  CopyPool(Events& events, int threads);
  void add(uint64_t tag, const std::atomic<uint64_t>* word, uint64_t token,
           const std::vector<CopyRow>& rows);

 private:
  struct Part {
    std::shared_ptr<CopyJob> job;
    CopyRow row;
  };
  void work();

  Events& events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Part> parts_;
};

}  // namespace perigee
