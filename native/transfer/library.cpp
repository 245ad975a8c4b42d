// What JavaScript calls (src/transfer/native/library.ts). Lists of ranges are tables of 64-bit
// words, so that one call names many pieces.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "copy-pool.h"
#include "crc32c.h"
#include "events.h"
#include "receiver.h"
#include "sender.h"
#include "shared-memory.h"

using namespace perigee;

#define PERIGEE_API extern "C" __attribute__((visibility("default")))

namespace {

struct Context {
  explicit Context(int threads) : copies(events, threads) {}
  Events events;
  CopyPool copies;
};

using Words = const uint64_t*;

template <typename T>
using Shared = std::shared_ptr<T>;

// [count, (address, bytes) × count]; returns what follows.
Words readRanges(Words at, std::vector<Range>* ranges) {
  const uint64_t count = *at++;
  ranges->clear();
  for (uint64_t i = 0; i < count; ++i, at += 2) {
    ranges->push_back({reinterpret_cast<char*>(at[0]), at[1]});
  }
  return at;
}

}  // namespace

PERIGEE_API void* perigee_transfer_open(int32_t threads, int32_t* wakeFd) {
  auto* context = new Context(threads);
  *wakeFd = context->events.wakeFd();
  return context;
}

PERIGEE_API int32_t perigee_transfer_drain(void* context, void* events, int32_t max) {
  return static_cast<Context*>(context)->events.drain(static_cast<Event*>(events), max);
}

PERIGEE_API uint64_t perigee_transfer_address(const void* memory) {
  return reinterpret_cast<uint64_t>(memory);
}

PERIGEE_API uint32_t perigee_transfer_crc32c(const void* data, int64_t bytes, uint32_t seed) {
  return crc32c(data, size_t(bytes), seed);
}

PERIGEE_API uint32_t perigee_transfer_crc32c_plain(const void* data, int64_t bytes, uint32_t seed) {
  return crc32cPlain(data, size_t(bytes), seed);
}

// Jobs one after another: [tag, read | piece << 32, word's address or 0, token, rows,
// (from, to, bytes) × rows].
PERIGEE_API void perigee_transfer_copy(void* context, const void* table, int32_t jobs) {
  auto at = static_cast<Words>(table);
  std::vector<CopyJob> named(static_cast<size_t>(jobs));
  for (CopyJob& job : named) {
    const uint64_t rows = at[4];
    job = {at[0],
           uint32_t(at[1]),
           uint32_t(at[1] >> 32),
           reinterpret_cast<const std::atomic<uint64_t>*>(at[2]),
           at[3],
           std::vector<CopyRow>(rows)};
    at += 5;
    for (CopyRow& row : job.rows) {
      row = {reinterpret_cast<const char*>(at[0]), reinterpret_cast<char*>(at[1]), at[2]};
      at += 3;
    }
  }
  static_cast<Context*>(context)->copies.add(std::move(named));
}

PERIGEE_API void* perigee_sender_open(void* context, uint64_t tag, int32_t stallMs) {
  auto& events = static_cast<Context*>(context)->events;
  return new Shared<Sender>(std::make_shared<Sender>(events, tag, stallMs));
}

PERIGEE_API int32_t perigee_sender_add(void* sender, int32_t fd) {
  return (*static_cast<Shared<Sender>*>(sender))->addLink(fd) ? 1 : 0;
}

// Pieces one after another: [read, piece, ranges].
PERIGEE_API void perigee_sender_send(void* sender, const void* table, int32_t pieces) {
  auto at = static_cast<Words>(table);
  std::vector<Sender::Piece> named(static_cast<size_t>(pieces));
  for (Sender::Piece& piece : named) {
    piece.read = uint32_t(at[0]);
    piece.piece = uint32_t(at[1]);
    at = readRanges(at + 2, &piece.ranges);
  }
  (*static_cast<Shared<Sender>*>(sender))->send(std::move(named));
}

PERIGEE_API int32_t perigee_sender_cancel(void* sender, uint32_t read) {
  return (*static_cast<Shared<Sender>*>(sender))->cancel(read) ? 1 : 0;
}

PERIGEE_API void perigee_sender_close(void* sender) {
  auto* shared = static_cast<Shared<Sender>*>(sender);
  (*shared)->close();
  delete shared;
}

PERIGEE_API void* perigee_receiver_open(void* context, uint64_t tag, int32_t stallMs) {
  auto& events = static_cast<Context*>(context)->events;
  return new Shared<Receiver>(std::make_shared<Receiver>(events, tag, stallMs));
}

PERIGEE_API int32_t perigee_receiver_add(void* receiver, int32_t fd) {
  return (*static_cast<Shared<Receiver>*>(receiver))->addLink(fd) ? 1 : 0;
}

// Pieces one after another: [read, piece, ranges].
PERIGEE_API void perigee_receiver_expect(void* receiver, const void* table, int32_t pieces) {
  auto at = static_cast<Words>(table);
  for (int32_t i = 0; i < pieces; ++i) {
    std::vector<Range> ranges;
    const Words head = at;
    at = readRanges(at + 2, &ranges);
    (*static_cast<Shared<Receiver>*>(receiver))
        ->expect(uint32_t(head[0]), uint32_t(head[1]), std::move(ranges));
  }
}

PERIGEE_API int32_t perigee_receiver_forget(void* receiver, uint32_t read) {
  return (*static_cast<Shared<Receiver>*>(receiver))->forget(read) ? 1 : 0;
}

PERIGEE_API void perigee_receiver_close(void* receiver) {
  auto* shared = static_cast<Shared<Receiver>*>(receiver);
  (*shared)->close();
  delete shared;
}

PERIGEE_API int32_t perigee_shared_create(const char* name, int64_t bytes, uint64_t* address) {
  void* memory = nullptr;
  const int fd = createShared(name, bytes, &memory);
  *address = reinterpret_cast<uint64_t>(memory);
  return fd;
}

PERIGEE_API uint64_t perigee_shared_map(int32_t pid, int32_t fd, const char* name, int64_t bytes) {
  return reinterpret_cast<uint64_t>(mapShared(pid, fd, name, bytes));
}

PERIGEE_API uint64_t perigee_shared_inherit(int32_t fd, int64_t bytes) {
  return reinterpret_cast<uint64_t>(mapInherited(fd, bytes));
}

// `fd`: of the process that created it, else -1.
PERIGEE_API void perigee_shared_release(uint64_t address, int64_t bytes, int32_t fd) {
  munmap(reinterpret_cast<void*>(address), size_t(bytes));
  if (fd >= 0) close(fd);
}
