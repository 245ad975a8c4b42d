// Device memory: zero-filled, 64-byte aligned, never moved.
//
// Streaming weights through 4 KiB pages costs a page walk every 64 cache lines, so all memory is
// mapped for huge pages (2 MiB). Many matrices are smaller than that: they are allocated one after
// another from slabs and share pages. A slab is unmapped when all of its allocations are released.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "params.h"

namespace perigee {

namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kSlabBytes = 64 << 20;
// Larger allocations get their own mapping. So at most a quarter at the end of a slab stays unused,
// and untouched pages occupy no memory.
constexpr int64_t kPieceBytesMax = kSlabBytes / 4;
constexpr int64_t kAlignment = 64;

constexpr int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Maps zero-filled memory aligned to a huge page; null when out of memory. `bytes`: whole pages.
uint8_t* mapHuge(int64_t bytes) {
  // Maps one huge page more than requested, so that an aligned range can be cut out.
  const int64_t padded = bytes + kHugePage;
  void* const mapped = mmap(nullptr, static_cast<size_t>(padded), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const start = static_cast<uint8_t*>(mapped);
  auto* const aligned =
      reinterpret_cast<uint8_t*>(roundUp(reinterpret_cast<int64_t>(mapped), kHugePage));
  if (aligned > start) munmap(start, static_cast<size_t>(aligned - start));
  const int64_t tail = start + padded - (aligned + bytes);
  if (tail > 0) munmap(aligned + bytes, static_cast<size_t>(tail));
#if defined(MADV_HUGEPAGE)
  madvise(aligned, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return aligned;
}

struct Slab {
  uint8_t* memory;
  int64_t used;
  int64_t pieces;
};

/// The slabs of all devices of the process. New allocations come from the newest, the last, only.
class Slabs {
 public:
  void* allocate(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slabs_.empty() || slabs_.back().used + bytes > kSlabBytes) {
      uint8_t* const memory = mapHuge(kSlabBytes);
      if (memory == nullptr) return nullptr;
      slabs_.push_back({memory, 0, 0});
    }
    Slab& slab = slabs_.back();
    void* const piece = slab.memory + slab.used;
    slab.used += bytes;
    ++slab.pieces;
    return piece;
  }

  /// A released range is not reused: allocated memory must be zero.
  void release(const void* piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < slabs_.size(); ++i) {
      const int64_t offset = static_cast<const uint8_t*>(piece) - slabs_[i].memory;
      if (offset < 0 || offset >= kSlabBytes) continue;
      if (--slabs_[i].pieces == 0) {
        munmap(slabs_[i].memory, static_cast<size_t>(kSlabBytes));
        slabs_.erase(slabs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      return;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Slab> slabs_;
};

/// Never destroyed: a device may be released while the process exits.
Slabs& slabs() {
  static Slabs* const instance = new Slabs();
  return *instance;
}

int64_t pieceBytes(int64_t bytes) { return roundUp(bytes > 0 ? bytes : 1, kAlignment); }

}  // namespace

/// Null when out of memory.
PERIGEE_EXPORT void* perigee_allocate(int64_t bytes) {
  const int64_t piece = pieceBytes(bytes);
  return piece > kPieceBytesMax ? mapHuge(roundUp(piece, kHugePage)) : slabs().allocate(piece);
}

/// `bytes`: the size passed to perigee_allocate.
PERIGEE_EXPORT void perigee_release(void* memory, int64_t bytes) {
  const int64_t piece = pieceBytes(bytes);
  if (piece > kPieceBytesMax) {
    munmap(memory, static_cast<size_t>(roundUp(piece, kHugePage)));
  } else {
    slabs().release(memory);
  }
}

/// Copies between host and device memory; on either side may be a typed array.
PERIGEE_EXPORT void perigee_copy(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace perigee
