// Sends pieces over the data connections of one reader. Each connection has a thread, which takes
// the next slice of the oldest piece: a slow connection takes fewer.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "events.h"
#include "link-frame.h"

namespace perigee {

class Sender : public std::enable_shared_from_this<Sender> {
 public:
  Sender(Events& events, uint64_t tag, int stallMs)
      : events_(events), tag_(tag), stallMs_(stallMs) {}
  // Takes the descriptor over.
  bool addLink(int fd);
  void send(uint32_t read, uint32_t piece, std::vector<Range> ranges);
  // Whether no memory of the read is read any more; if not, kQuiet follows when that is so.
  bool cancel(uint32_t read);
  // kClosed follows once all threads have ended.
  void close();

 private:
  struct Piece {
    uint32_t read;
    uint32_t piece;
    std::vector<Range> ranges;
    uint64_t bytes;
    uint64_t given = 0;   // slices begin before this offset
    uint64_t written = 0;
  };
  struct Read {
    int busy = 0;  // links that read its memory
    bool cancelled = false;
  };
  struct Slice {
    std::shared_ptr<Piece> piece;
    std::shared_ptr<Read> read;
    uint64_t offset;
    uint64_t bytes;
    // The link reads the read's memory no more, and has said so.
    bool left = false;
  };
  void work(int fd);
  bool take(Slice* slice);
  bool sendSlice(int fd, Slice* slice);
  bool leaveIfCancelled(Slice* slice);
  void leave(Slice* slice);
  void release(Slice* slice, bool written);

  Events& events_;
  const uint64_t tag_;
  const int stallMs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Piece>> pieces_;
  std::map<uint32_t, std::shared_ptr<Read>> reads_;
  std::vector<int> fds_;
  int threads_ = 0;
  bool closing_ = false;
};

}  // namespace perigee
