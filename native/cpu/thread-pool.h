// A thread pool that runs the tasks of one op at a time.
//
// The calling thread runs tasks too. Between the ops of a step workers spin for tens of
// microseconds, then sleep, so that an idle engine uses no processor time.
//
// Where other processes want the same cores, a worker that loses its core in the middle of a task
// keeps all threads waiting until it has the core again, milliseconds later. So workers offer their
// core between two tasks, sooner than the system would take it: the calling thread goes on alone
// meanwhile. A core that no other process wants is given back at once.
//
// The assignment of tasks to threads is not deterministic. The result of an op must not depend on
// it.
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
    if (tasks <= 1 || workers_.empty()) {
      for (int64_t task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    run(tasks, [](const void* context, int64_t task, int thread) {
      (*static_cast<const Body*>(context))(task, thread);
    }, &body);
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

  void run(int64_t tasks, Call call, const void* context);
  void work(int thread);
  template <typename Before>
  void runTasks(int thread, const Before& beforeTask);
  template <typename Slept>
  bool waitForWork(uint32_t seen, const Slept& slept);

  // Written before `remaining_` is published, and unchanged until all tasks are completed.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  int64_t tasks_ = 0;

  alignas(128) std::atomic<int64_t> remaining_{0};
  alignas(128) std::atomic<int64_t> completed_{0};
  alignas(128) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;
  std::condition_variable wake_;
  Scratch shared_;
  Scratch plan_;
  std::vector<Scratch> own_;
  std::vector<std::thread> workers_;
};

}  // namespace perigee
