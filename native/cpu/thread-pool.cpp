#include "thread-pool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cores.h"
#include "params.h"
#include "simd.h"

namespace perigee {

namespace {

using Micros = std::chrono::microseconds;

// Longer than the gap between two ops of a step (about 1 us of TypeScript), short enough to waste
// little.
constexpr Micros kSpin(80);
// Where cores are left over: longer than the gap between two steps, so that none begins by waking
// threads, which on a virtual machine takes up to 100 us.
constexpr Micros kSpinLong(2000);
// A little less than a tick of 250 Hz, at which Linux usually hands a shared core on. On two cores
// beside one or two threads that never wait, decoding is 10 to 20 % faster for it.
constexpr auto kOfferAfter = std::chrono::microseconds(3300);
// Reading the clock costs as much as some pauses, so this many pauses run between two readings.
constexpr int kPausesPerReading = 32;
constexpr int64_t kLineBytes = 64;
// Read ahead at once: few enough that a thread sees soon that its op began.
constexpr int64_t kAheadBytes = 8 * kLineBytes;
constexpr int kSecondLevel = 2;  // of __builtin_prefetch
// Low bits of `owning_`.
constexpr int kOwnedBits = 16;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

/// Spins until `ready()` returns true or `most` has passed; returns whether it became ready. Calls
/// `meanwhile()` now and then, which returns whether it took some time.
template <typename Ready, typename Meanwhile>
bool spinUntil(const Ready& ready, Micros most, const Meanwhile& meanwhile) {
  const auto end = std::chrono::steady_clock::now() + most;
  do {
    for (int i = 0; i < kPausesPerReading; ++i) {
      if (ready()) return true;
      if (!meanwhile()) pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

/// Offers this thread's core to others from time to time.
class CoreOffer {
 public:
  /// Calls `before()` before the core is offered.
  template <typename Before>
  void make(const Before& before) {
    if (std::chrono::steady_clock::now() - since_ < kOfferAfter) return;
    before();
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

void SharedReadAhead::write(const ReadAhead& ahead) {
  const uint32_t number = number_.load(std::memory_order_relaxed);
  number_.store(number + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  memory_.store(ahead.memory, std::memory_order_relaxed);
  units_.store(ahead.units, std::memory_order_relaxed);
  parts_.store(ahead.parts, std::memory_order_relaxed);
  unitBytes_.store(ahead.unitBytes, std::memory_order_relaxed);
  bytesMax_.store(ahead.bytesMax, std::memory_order_relaxed);
  number_.store(number + 2, std::memory_order_release);
}

bool SharedReadAhead::read(uint32_t number, ReadAhead& ahead) const {
  if (number % 2 != 0) return false;
  ahead = {memory_.load(std::memory_order_relaxed), units_.load(std::memory_order_relaxed),
           parts_.load(std::memory_order_relaxed), unitBytes_.load(std::memory_order_relaxed),
           bytesMax_.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  return number_.load(std::memory_order_relaxed) == number;
}

bool AheadProgress::step(const SharedReadAhead& shared, int thread) {
  const uint32_t number = shared.number();
  if (number != number_ && !start(shared, number, thread)) return false;
  if (next_ >= end_) return false;
  const uint8_t* const stop = std::min(next_ + kAheadBytes, end_);
  for (; next_ < stop; next_ += kLineBytes) __builtin_prefetch(next_, 0, kSecondLevel);
  return true;
}

bool AheadProgress::start(const SharedReadAhead& shared, uint32_t number, int thread) {
  ReadAhead ahead;
  if (!shared.read(number, ahead)) return false;
  number_ = number;
  next_ = end_ = nullptr;
  if (ahead.memory == nullptr || thread >= ahead.parts) return false;
  next_ = ahead.begin(thread);
  end_ = std::min(ahead.begin(thread + 1), next_ + ahead.bytesMax);
  return true;
}

ThreadPool::ThreadPool(int threads, bool pin)
    : sparesCores_(threads < availableCores()),
      claims_(static_cast<size_t>(threads)),
      own_(static_cast<size_t>(threads)) {
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

void ThreadPool::run(int64_t tasks, int owned, Call call, const void* context) {
  call_ = call;
  context_ = context;
  tasks_ = tasks;
  completed_.store(0, std::memory_order_relaxed);
  const uint64_t owning = owned > 0 ? ++owningOps_ << kOwnedBits | static_cast<uint64_t>(owned) : 0;
  owning_.store(owning, std::memory_order_release);
  remaining_.store(tasks - owned, std::memory_order_release);

  // Either a worker about to sleep sees the new epoch, or this thread sees it in `sleepers_`: both
  // are seq_cst.
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }

  runTasks(0, [](const auto&) {});

  // The remaining tasks run on workers. A descheduled worker may need this core, so yield.
  const auto done = [&] { return completed_.load(std::memory_order_acquire) == tasks; };
  const auto meanwhile = [&] { return callersAhead_.step(ahead_, 0); };
  while (!spinUntil(done, kSpin, meanwhile)) std::this_thread::yield();
}

/// Runs the thread's own task, then those without an owner, then those whose owners did not come.
/// `beforeTask(before)` calls `before()` where the thread may lose its core.
template <typename Before>
void ThreadPool::runTasks(int thread, const Before& beforeTask) {
  // Counted here, since a counter that all threads write moves from core to core. A task that was
  // taken and not counted keeps its op from completing, so that the op's fields still belong to it.
  int64_t ran = 0;
  const auto count = [&] {
    if (ran > 0) completed_.fetch_add(ran, std::memory_order_release);
    ran = 0;
  };
  const auto runTask = [&](int64_t task) {
    call_(context_, task, thread);
    ++ran;
  };

  const uint64_t owning = owning_.load(std::memory_order_acquire);
  const uint64_t op = owning >> kOwnedBits;
  const int owned = static_cast<int>(owning & ((1u << kOwnedBits) - 1));
  if (thread < owned && claim(thread, op)) runTask(thread);
  while (remaining_.load(std::memory_order_acquire) > 0) {
    beforeTask(count);
    const int64_t left = remaining_.fetch_sub(1, std::memory_order_acq_rel);
    if (left > 0) runTask(tasks_ - left);
  }
  for (int task = 0; task < owned; ++task) {
    if (claim(task, op)) runTask(task);
  }
  count();
}

/// Takes an owned task of an op, unless it is taken, or the op has passed.
bool ThreadPool::claim(int task, uint64_t op) {
  std::atomic<uint64_t>& taken = claims_[static_cast<size_t>(task)].op;
  uint64_t last = taken.load(std::memory_order_acquire);
  return last < op && taken.compare_exchange_strong(last, op, std::memory_order_acq_rel);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  CoreOffer offer;
  AheadProgress ahead;
  while (waitForWork(seen, ahead, thread, [&] { offer.restart(); })) {
    seen = epoch_.load();
    runTasks(thread, [&](const auto& before) { offer.make(before); });
  }
}

/// Returns when the epoch differs from `seen`; false when the pool is stopping. Calls `slept()`
/// after a sleep.
template <typename Slept>
bool ThreadPool::waitForWork(uint32_t seen, AheadProgress& ahead, int thread,
                             const Slept& slept) {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  const auto meanwhile = [&] { return ahead.step(ahead_, thread); };
  if (!spinUntil(changed, sparesCores_ ? kSpinLong : kSpin, meanwhile)) {
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
