// Device memory: zero-filled, 64-byte aligned, never moved.
//
// Regions of 2 MiB and more are mapped and marked for huge pages: streaming weights through 4 KiB
// pages costs a page walk every 64 cache lines.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "params.h"

namespace perigee {

namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kAlignment = 64;

int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void* mapHuge(int64_t bytes) {
  // One page more than asked, so that an aligned start can be cut out of it.
  const int64_t padded = bytes + kHugePage;
  void* const mapped = mmap(nullptr, static_cast<size_t>(padded), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<int64_t>(mapped);
  const int64_t aligned = roundUp(start, kHugePage);
  if (aligned > start) munmap(mapped, static_cast<size_t>(aligned - start));
  const int64_t tail = start + padded - (aligned + bytes);
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), static_cast<size_t>(tail));
#if defined(MADV_HUGEPAGE)
  madvise(reinterpret_cast<void*>(aligned), static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

/// Null when there is no memory left.
PERIGEE_EXPORT void* perigee_allocate(int64_t bytes) {
  if (bytes >= kHugePage) return mapHuge(roundUp(bytes, kHugePage));
  const auto size = static_cast<size_t>(roundUp(bytes > 0 ? bytes : 1, kAlignment));
  void* const memory = std::aligned_alloc(kAlignment, size);
  if (memory != nullptr) std::memset(memory, 0, size);
  return memory;
}

/// `bytes` as it was allocated.
PERIGEE_EXPORT void perigee_release(void* memory, int64_t bytes) {
  if (bytes >= kHugePage) {
    munmap(memory, static_cast<size_t>(roundUp(bytes, kHugePage)));
  } else {
    std::free(memory);
  }
}

/// Host to device and back; either side may be a typed array.
PERIGEE_EXPORT void perigee_copy(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace perigee
