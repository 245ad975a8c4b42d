// A thread pool that runs the tasks of one op at a time.
//
// The calling thread runs tasks too. Between the ops of a step workers spin for tens of
// microseconds, between steps too where cores are left over, then sleep, so that an idle engine
// uses no processor time.
//
// Where other processes want the same cores, a worker that loses its core in the middle of a task
// keeps all threads waiting until it has the core again, milliseconds later. So workers offer their
// core between two tasks, sooner than the system would take it: the calling thread goes on alone
// meanwhile. A core that no other process wants is given back at once.
//
// The assignment of tasks to threads is not deterministic. The result of an op must not depend on
// it. An op may give each thread one task of its own, whose memory threads that wait read ahead
// into their cache; another thread runs it where its owner sleeps or has lost its core.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace perigee {

/// Memory that grows to the largest request and is reused. Contents are undefined after each
/// request.
class Scratch {
 public:
  ~Scratch();
  /// 64-byte aligned, at least `bytes`. Aborts the process when out of memory.
  void* get(int64_t bytes);

 private:
  void* memory_ = nullptr;
  int64_t capacity_ = 0;
};

/// Memory that the threads' own tasks of a coming op read: parts of nearly as many units, one
/// behind the other.
struct ReadAhead {
  const uint8_t* memory = nullptr;
  int64_t units = 0;
  int64_t parts = 1;
  int64_t unitBytes = 0;
  int64_t bytesMax = 0;  // of a part that are read ahead

  const uint8_t* begin(int64_t part) const { return memory + part * units / parts * unitBytes; }
};

/// The read-ahead that the calling thread shares with those that wait. A torn copy is not taken.
class SharedReadAhead {
 public:
  void write(const ReadAhead& ahead);
  /// Odd while it is written.
  uint32_t number() const { return number_.load(std::memory_order_acquire); }
  /// False: it was written meanwhile.
  bool read(uint32_t number, ReadAhead& ahead) const;

 private:
  std::atomic<uint32_t> number_{0};
  std::atomic<const uint8_t*> memory_{nullptr};
  std::atomic<int64_t> units_{0}, parts_{1}, unitBytes_{0}, bytesMax_{0};
};

/// A thread's progress in reading ahead.
class AheadProgress {
 public:
  /// Prefetches some lines of part `thread`, unless all were; returns whether it did.
  bool step(const SharedReadAhead& shared, int thread);

 private:
  bool start(const SharedReadAhead& shared, uint32_t number, int thread);

  uint32_t number_ = 0;
  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
};

class ThreadPool {
 public:
  /// `threads` counts the calling thread. `pin` binds worker i to the i-th allowed core.
  ThreadPool(int threads, bool pin);
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(task, thread) for every task of [0, tasks) and returns when all are done. `thread`
  /// is in [0, threads()); a thread runs one task at a time. Tasks start in rising order. Must not
  /// be called from inside a task.
  template <typename Body>
  void parallelFor(int64_t tasks, const Body& body) {
    parallelFor(tasks, 0, body);
  }

  /// The same, where the first `owned` tasks, at most threads(), belong to the threads of their
  /// number.
  template <typename Body>
  void parallelFor(int64_t tasks, int owned, const Body& body) {
    if (tasks <= 1 || workers_.empty()) {
      for (int64_t task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    run(tasks, owned, [](const void* context, int64_t task, int thread) {
      (*static_cast<const Body*>(context))(task, thread);
    }, &body);
  }

  /// Threads that wait read this into their caches, until the next call of this.
  void readAhead(const ReadAhead& ahead) {
    if (!workers_.empty()) ahead_.write(ahead);
  }

  /// Scratch of the running op. A second request may move it. For the calling thread only.
  template <typename T>
  T* scratch(int64_t count) {
    return static_cast<T*>(shared_.get(count * static_cast<int64_t>(sizeof(T))));
  }

  /// A second such buffer: the GEMM plan (linear.cpp) uses it while an op uses the first.
  template <typename T>
  T* planScratch(int64_t count) {
    return static_cast<T*>(plan_.get(count * static_cast<int64_t>(sizeof(T))));
  }

  /// A buffer per thread, for use inside a task.
  template <typename T>
  T* scratch(int64_t count, int thread) {
    return static_cast<T*>(own_[thread].get(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  using Call = void (*)(const void* context, int64_t task, int thread);

  void run(int64_t tasks, int owned, Call call, const void* context);
  void work(int thread);
  template <typename Before>
  void runTasks(int thread, const Before& beforeTask);
  bool claim(int task, uint64_t op);
  template <typename Slept>
  bool waitForWork(uint32_t seen, AheadProgress& ahead, int thread, const Slept& slept);

  // Written before `owning_` and `remaining_` are published, and unchanged until all tasks are
  // completed.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  int64_t tasks_ = 0;
  uint64_t owningOps_ = 0;

  alignas(128) std::atomic<int64_t> remaining_{0};  // tasks that have no owner and were not taken
  alignas(128) std::atomic<int64_t> completed_{0};
  alignas(128) std::atomic<uint32_t> epoch_{0};
  // Number of the running op among those with owned tasks, and how many it has in the low bits; 0:
  // it has none.
  std::atomic<uint64_t> owning_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};

  const bool sparesCores_;
  // The last owning op whose task of this number was taken.
  struct alignas(128) Claim {
    std::atomic<uint64_t> op{0};
  };
  std::vector<Claim> claims_;
  alignas(128) SharedReadAhead ahead_;
  AheadProgress callersAhead_;

  std::mutex mutex_;
  std::condition_variable wake_;
  Scratch shared_;
  Scratch plan_;
  std::vector<Scratch> own_;
  std::vector<std::thread> workers_;
};

}  // namespace perigee
