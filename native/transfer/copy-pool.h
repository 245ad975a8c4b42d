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
  // Of the event that tells of it.
  uint64_t tag;
  uint32_t read;
  uint32_t piece;
  // Where the owner of the source says that it is still valid: the word must equal `token`.
  const std::atomic<uint64_t>* word;
  uint64_t token;
  std::vector<CopyRow> rows;
};

class CopyPool {
 public:
  CopyPool(Events& events, int threads);
  void add(std::vector<CopyJob> jobs);

 private:
  struct Pending {
    CopyJob job;
    std::atomic<int> left;
  };
  struct Part {
    std::shared_ptr<Pending> of;
    CopyRow row;
  };
  void work();
  void take(std::vector<Part>* parts, EventBatch* done);

  Events& events_;
  const size_t threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Part> parts_;
};

}  // namespace perigee
