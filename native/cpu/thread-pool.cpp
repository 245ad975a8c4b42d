#include "thread-pool.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cores.h"
#include "params.h"
#include "simd.h"

namespace perigee {

namespace {

// Longer than the gap between two ops of a step (about 1 us of TypeScript), short enough to waste
// little.
constexpr auto kSpin = std::chrono::microseconds(80);
// A little less than a tick of 250 Hz, at which Linux usually hands a shared core on. On two cores
// beside one or two threads that never wait, decoding is 10 to 20 % faster for it.
constexpr auto kOfferAfter = std::chrono::microseconds(3300);
// Reading the clock costs as much as some pauses, so this many pauses run between two readings.
constexpr int kPausesPerReading = 32;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

/// Spins until `ready()` returns true or kSpin has passed; returns whether it became ready.
template <typename Ready>
bool spinUntil(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerReading; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

/// Offers this thread's core to others from time to time.
class CoreOffer {
 public:
  void make() {
    if (std::chrono::steady_clock::now() - since_ < kOfferAfter) return;
    std::this_thread::yield();
    restart();
  }

  /// For a thread that just slept, which left the core to others.
  void restart() { since_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace

Scratch::~Scratch() { std::free(memory_); }

void* Scratch::get(int64_t bytes) {
  if (bytes <= capacity_) return memory_;
  std::free(memory_);
  capacity_ = (bytes + bytes / 4 + 4095) / 4096 * 4096;
  memory_ = std::aligned_alloc(4096, static_cast<size_t>(capacity_));
  if (memory_ == nullptr) {
    std::fprintf(stderr, "perigee: no memory for %lld bytes of scratch\n",
                 static_cast<long long>(bytes));
    std::abort();
  }
  return memory_;
}

ThreadPool::ThreadPool(int threads, bool pin) : own_(static_cast<size_t>(threads)) {
  workers_.reserve(static_cast<size_t>(threads) - 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread, pin] {
      if (pin) pinToCore(thread);
      work(thread);
    });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  epoch_.fetch_add(1);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t tasks, Call call, const void* context) {
  call_ = call;
  context_ = context;
  tasks_ = tasks;
  completed_.store(0, std::memory_order_relaxed);
  remaining_.store(tasks, std::memory_order_release);

  // Either a worker about to sleep sees the new epoch, or this thread sees it in `sleepers_`: both
  // are seq_cst.
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }

  runTasks(0, [] {});

  // The remaining tasks run on workers. A descheduled worker may need this core, so yield.
  const auto done = [&] { return completed_.load(std::memory_order_acquire) == tasks; };
  while (!spinUntil(done)) std::this_thread::yield();
}

template <typename Before>
void ThreadPool::runTasks(int thread, const Before& beforeTask) {
  int64_t left = remaining_.load(std::memory_order_acquire);
  while (left > 0) {
    beforeTask();
    if (!remaining_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) continue;

    // A taken task keeps its op from completing, so the fields below still belong to this op.
    call_(context_, tasks_ - left, thread);
    completed_.fetch_add(1, std::memory_order_release);
    left = remaining_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  CoreOffer offer;
  while (waitForWork(seen, [&] { offer.restart(); })) {
    seen = epoch_.load();
    runTasks(thread, [&] { offer.make(); });
  }
}

/// Returns when the epoch differs from `seen`; false when the pool is stopping. Calls `slept()`
/// after a sleep.
template <typename Slept>
bool ThreadPool::waitForWork(uint32_t seen, const Slept& slept) {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (!spinUntil(changed)) {
    sleepers_.fetch_add(1);
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [&] { return epoch_.load() != seen; });
    sleepers_.fetch_sub(1);
    slept();
  }
  return !stopping_.load();
}

PERIGEE_EXPORT void* perigee_pool_create(int32_t threads, int32_t pin) {
  return new ThreadPool(threads, pin != 0);
}

PERIGEE_EXPORT void perigee_pool_destroy(void* pool) { delete static_cast<ThreadPool*>(pool); }

}  // namespace perigee
