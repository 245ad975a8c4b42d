// Helpers of row-wise ops: partial vectors at the end of a row, and distribution of rows to
// threads.
#pragma once

#include <algorithm>

#include "quantize.h"
#include "simd.h"
#include "thread-pool.h"

namespace perigee {

inline F32 loadLanes(const float* from, int lanes) {
  return lanes == kLanes ? load(from) : loadFirst(from, lanes);
}

inline void storeLanes(float* to, F32 vector, int lanes) {
  if (lanes == kLanes) {
    store(to, vector);
  } else {
    storeFirst(to, vector, lanes);
  }
}

// Calls body(i, lanes) for i = 0, kLanes, ... below `count`; only the last call may have fewer
// lanes.
template <typename Body>
inline void forLanes(int64_t count, const Body& body) {
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) body(i, kLanes);
  if (whole < count) body(whole, static_cast<int>(count - whole));
}

// About a microsecond of work. Less does not repay waking another thread.
constexpr int64_t kTaskFloats = 8192;

// Tasks for so much work: 1, or one per thread, or a multiple of that.
inline int64_t tasksFor(const ThreadPool& pool, int64_t floats) {
  const int64_t threads = pool.threads();
  const int64_t worthwhile = (floats + kTaskFloats - 1) / kTaskFloats;
  return worthwhile <= 1 ? 1 : (worthwhile + threads - 1) / threads * threads;
}

// Calls body(row, thread) for every row of `floats` floats. Rows are split into equal tasks.
template <typename Body>
void parallelRows(ThreadPool& pool, int64_t rows, int64_t floats, const Body& body) {
  const int64_t tasks = std::min(tasksFor(pool, rows * floats), rows);
  pool.parallelFor(tasks, [&](int64_t task, int thread) {
    const int64_t end = (task + 1) * rows / tasks;
    for (int64_t row = task * rows / tasks; row < end; ++row) body(row, thread);
  });
}

// Calls body(row, begin, end, thread) for parts of rows whose every column is worth `floats`
// floats; a row is one part where there are enough rows. Parts are whole units of columns, but for
// the row's last.
template <typename Body>
void parallelParts(ThreadPool& pool, int64_t rows, int64_t columns, int64_t unit, int64_t floats,
                   const Body& body) {
  const int64_t units = (columns + unit - 1) / unit;
  const int64_t tasks = tasksFor(pool, rows * columns * floats);
  if (rows == 0 || tasks <= rows || units <= 1) {
    parallelRows(pool, rows, columns * floats,
                 [&](int64_t row, int thread) { body(row, 0, columns, thread); });
    return;
  }
  const int64_t parts = std::min(units, (tasks + rows - 1) / rows);
  pool.parallelFor(rows * parts, [&](int64_t task, int thread) {
    const int64_t part = task % parts;
    const int64_t end = (part + 1) * units / parts * unit;
    body(task / parts, part * units / parts * unit, std::min(end, columns), thread);
  });
}

// Calls body(begin, end) for parts of [0, count); all but the last are whole vectors.
template <typename Body>
void parallelSpans(ThreadPool& pool, int64_t count, const Body& body) {
  pool.parallelFor((count + kTaskFloats - 1) / kTaskFloats, [&](int64_t task, int) {
    body(task * kTaskFloats, std::min((task + 1) * kTaskFloats, count));
  });
}

}  // namespace perigee
