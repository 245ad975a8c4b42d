// Blocks of a KV cache to other places: inside the cache, or from and to host memory.
//
// Formula  to[pairs[i][1]] = from[pairs[i][0]] for i = 0, 1, ..., in this order
// Shapes   from, to [N, B] bytes, N blocks of B bytes; pairs [count, 2]
// Work     Slices of a block: every task does all pairs, in order, for its own bytes. So a pair may
//          read what an earlier one wrote without any pair waiting for another.
// Bound    memory: 2 B bytes per pair (3 B where the caches fetch what they overwrite)
// Checked  test/contracts/device-ops/block-moves.ts
#include <algorithm>
#include <cstring>

#include "params.h"
#include "thread-pool.h"

namespace perigee {

struct MoveBlocksParams {
  ThreadPool* pool;
  uint8_t* to;
  const uint8_t* from;
  Int blockBytes;
  Int count;
};

namespace {

// Below this a task is not worth waking a thread for, and memcpy has not yet reached its speed.
constexpr int64_t kSliceBytesMin = 16 << 10;
constexpr int64_t kCacheLine = 64;
// More slices than threads, so that one that lost its core does not hold up the others.
constexpr int64_t kSlicesPerThread = 2;

}  // namespace

PERIGEE_EXPORT void perigee_move_blocks(const MoveBlocksParams* params, const int32_t* pairs) {
  const MoveBlocksParams& p = *params;
  const int64_t bytes = p.blockBytes;
  const int64_t wanted = kSlicesPerThread * p.pool->threads();
  const int64_t even = (bytes + wanted - 1) / wanted;
  const int64_t lines = (std::max(even, kSliceBytesMin) + kCacheLine - 1) / kCacheLine;
  const int64_t slice = lines * kCacheLine;
  const int64_t count = p.count;
  p.pool->parallelFor((bytes + slice - 1) / slice, [&](int64_t task, int) {
    const int64_t begin = task * slice;
    const auto size = static_cast<size_t>(std::min(slice, bytes - begin));
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* const from = p.from + pairs[2 * i] * bytes + begin;
      uint8_t* const to = p.to + pairs[2 * i + 1] * bytes + begin;
      if (from != to) std::memcpy(to, from, size);
    }
  });
}

}  // namespace perigee
