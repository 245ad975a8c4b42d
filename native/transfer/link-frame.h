// What travels on a data connection, from the owner of pieces to their reader: a header, then the
// bytes of one slice of a piece. src/transfer/frames.ts writes the same where there is no library.
#pragma once
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace perigee {

// Fits a second-level cache, so that a checksum reads what the socket copies from memory once.
constexpr uint64_t kSliceBytes = 256 * 1024;
constexpr uint32_t kFrameMagic = 0x50475452;
constexpr int kRangesMax = 512;

struct FrameHeader {
  uint32_t magic;
  uint32_t read;
  uint32_t piece;
  uint32_t bytes;
  uint64_t offset;
  uint32_t crc;
  // Of all above.
  uint32_t headerCrc;
};
static_assert(sizeof(FrameHeader) == 32, "the header's layout is the protocol");

struct Range {
  char* data;
  uint64_t bytes;
};

inline uint64_t bytesOf(const std::vector<Range>& ranges) {
  uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.bytes;
  return bytes;
}

// Appends the parts of `ranges` from `offset` on, `bytes` in all, but no more than an iovec holds.
inline void appendParts(std::vector<iovec>& out, const std::vector<Range>& ranges, uint64_t offset,
                        uint64_t bytes) {
  for (const Range& range : ranges) {
    if (bytes == 0 || int(out.size()) == kRangesMax) return;
    if (offset >= range.bytes) {
      offset -= range.bytes;
      continue;
    }
    const uint64_t count = std::min(bytes, range.bytes - offset);
    out.push_back({range.data + offset, count});
    bytes -= count;
    offset = 0;
  }
}

}  // namespace perigee
