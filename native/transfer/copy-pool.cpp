#include "copy-pool.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace perigee {
namespace {

// A part is at most this large, so that several threads share a large copy; and a thread takes at
// most so much of small ones at once.
constexpr uint64_t kPartBytes = 1 << 20;
constexpr size_t kPartsMax = 64;

}  // namespace

CopyPool::CopyPool(Events& events, int threads) : events_(events), threads_(size_t(threads)) {
  for (int i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
}

void CopyPool::add(std::vector<CopyJob> jobs) {
  std::vector<Part> parts;
  for (CopyJob& job : jobs) {
    auto pending = std::make_shared<Pending>();
    const size_t before = parts.size();
    for (CopyRow row : job.rows) {
      while (row.bytes > 0) {
        const uint64_t bytes = std::min(row.bytes, kPartBytes);
        parts.push_back({pending, {row.from, row.to, bytes}});
        row = {row.from + bytes, row.to + bytes, row.bytes - bytes};
      }
    }
    if (parts.size() == before) parts.push_back({pending, {nullptr, nullptr, 0}});
    pending->left = int(parts.size() - before);
    pending->job = std::move(job);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    parts_.insert(parts_.end(), std::make_move_iterator(parts.begin()),
                  std::make_move_iterator(parts.end()));
  }
  if (parts.size() > 1) {
    changed_.notify_all();
  } else {
    changed_.notify_one();
  }
}

void CopyPool::work() {
  EventBatch done(events_);
  std::vector<Part> parts;
  for (;;) {
    take(&parts, &done);
    for (const Part& part : parts) {
      if (part.row.bytes > 0) std::memcpy(part.row.to, part.row.from, part.row.bytes);
      if (part.of->left.fetch_sub(1) > 1) {
        done.moved(part.row.bytes);
        continue;
      }
      // The owner clears the word before it writes the source again: what was copied before the
      // word is read here was copied before that.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      const CopyJob& job = part.of->job;
      const bool valid = job.word == nullptr || job.word->load() == job.token;
      done.add({EventKind::kCopied, valid ? 1 : 0, job.read, job.piece, job.tag});
      done.moved(part.row.bytes);
    }
    parts.clear();
  }
}

// A fair share of what there is, so that small copies, too, keep all threads at work.
void CopyPool::take(std::vector<Part>* parts, EventBatch* done) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (parts_.empty()) {
    lock.unlock();
    done->flush();
    lock.lock();
  }
  changed_.wait(lock, [this] { return !parts_.empty(); });
  const size_t share = std::clamp<size_t>(parts_.size() / threads_, 1, kPartsMax);
  uint64_t bytes = 0;
  do {
    bytes += parts_.front().row.bytes;
    parts->push_back(std::move(parts_.front()));
    parts_.pop_front();
  } while (parts->size() < share && bytes + parts_.front().row.bytes <= kPartBytes);
}

}  // namespace perigee
