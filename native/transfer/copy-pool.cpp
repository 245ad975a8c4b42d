#include "copy-pool.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace perigee {
namespace {

// Copies of at most this size are one part: several threads share larger ones.
constexpr uint64_t kPartBytes = 1 << 20;

}  // namespace

CopyPool::CopyPool(Events& events, int threads) : events_(events) {
  for (int i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
}

void CopyPool::add(uint64_t tag, const std::atomic<uint64_t>* word, uint64_t token,
                   const std::vector<CopyRow>& rows) {
  auto job = std::make_shared<CopyJob>();
  job->tag = tag;
  job->word = word;
  job->token = token;
  std::vector<Part> parts;
  for (CopyRow row : rows) {
    while (row.bytes > 0) {
      const uint64_t bytes = std::min(row.bytes, kPartBytes);
      parts.push_back({job, {row.from, row.to, bytes}});
      row = {row.from + bytes, row.to + bytes, row.bytes - bytes};
    }
  }
  if (parts.empty()) parts.push_back({job, {nullptr, nullptr, 0}});
  job->left = int(parts.size());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }
  if (parts.size() > 1) {
    changed_.notify_all();
  } else {
    changed_.notify_one();
  }
}

void CopyPool::work() {
  for (;;) {
    Part part;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !parts_.empty(); });
      part = std::move(parts_.front());
      parts_.pop_front();
    }
    if (part.row.bytes > 0) std::memcpy(part.row.to, part.row.from, part.row.bytes);
    if (part.job->left.fetch_sub(1) > 1) continue;
    // The owner clears the word before it writes the source again: what was copied before the word
    // is read here was copied before that.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::atomic<uint64_t>* word = part.job->word;
    const bool valid = word == nullptr || word->load() == part.job->token;
    events_.post({EventKind::kCopied, valid ? 1 : 0, 0, 0, part.job->tag});
  }
}

}  // namespace perigee
