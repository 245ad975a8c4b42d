// Copies KV cache blocks: within the cache, or between the cache and host memory.
//
// Formula  to[pairs[i][1]] = from[pairs[i][0]] for i = 0, 1, ..., in this order
// Shapes   from, to [N, B] bytes, N blocks of B bytes; pairs [count, 2]
// Work     One task per slice of the block's bytes. Each task copies its slice of all pairs in
//          order. So a pair may read what an earlier pair wrote, without synchronisation between
//          tasks.
// Bound    memory: 2 B bytes per pair (3 B where the cache fetches lines before they are
//          overwritten)
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

// Smaller slices do not repay waking a thread, and memcpy does not reach full speed on them.
constexpr int64_t kSliceBytesMin = 16 << 10;
constexpr int64_t kCacheLine = 64;
// More slices than threads, so that a descheduled thread delays the others less.
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
