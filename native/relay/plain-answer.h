// What of a worker's answer is plain: whole chunks (RFC 9112, 7.1) of whole events, as
// src/cluster/router reads them. Everything else is left to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace perigee {

// A chunk that is larger than this is not plain; so no end of a chunk is waited for in more bytes.
constexpr size_t kChunkBytesMax = 1 << 16;

struct Form {
  // Of a stream with markers (src/cluster/router/marker-reader.ts); 0: whole lines, no markers.
  int choices = 0;
  // A bit per choice that has not ended.
  uint64_t live = 0;
};

// What was taken so far. It always ends behind a whole chunk that leaves nothing open.
struct Taken {
  // Content for the client: no markers, no framing.
  std::string content;
  // By choice, with commas between them.
  std::vector<std::string> ids;
  uint32_t tokens = 0;
  // Content as it came, markers included.
  uint64_t contentBytes = 0;
};

struct Progress {
  // Bytes of the whole chunks that were taken.
  size_t bytes;
  // False: what follows is not plain. True: its end is still to come, or nothing follows.
  bool isPlain;
};

// Takes as many plain chunks as there are, of at most `contentBytesMax` bytes of content.
Progress takePlain(const char* bytes, size_t size, const Form& form, uint64_t contentBytesMax,
                   Taken* taken);

}  // namespace perigee
