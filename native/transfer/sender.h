// Sends pieces over the data connections of one reader. Each connection has a thread, which takes
// the next slice of the oldest piece, or those of several small pieces: a slow connection takes
// fewer.
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
  struct Piece {
    uint32_t read;
    uint32_t piece;
    std::vector<Range> ranges;
  };
  void send(std::vector<Piece> pieces);
  // Whether no memory of the read is read any more; if not, kQuiet follows when that is so.
  bool cancel(uint32_t read);
  // kClosed follows once all threads have ended.
  void close();

 private:
  struct Read {
    int busy = 0;  // slices that links send
    bool cancelled = false;
  };
  struct Queued {
    Piece piece;
    std::shared_ptr<Read> read;
    uint64_t bytes;
    uint64_t given = 0;  // slices begin before this offset
    uint64_t written = 0;
  };
  struct Slice {
    std::shared_ptr<Queued> of;
    uint64_t offset;
    uint64_t bytes;
    FrameHeader header{};
    uint64_t sent = 0;  // of the header and the bytes behind it
    // The link reads the read's memory no more, and has said so.
    bool left = false;
    uint64_t total() const { return sizeof header + bytes; }
    void fillHeader();
    void appendTo(std::vector<iovec>& parts);
  };
  void work(int fd);
  bool take(std::vector<Slice>* slices, EventBatch* done);
  bool sendSlices(int fd, std::vector<Slice>* slices, EventBatch* done);
  void leaveCancelled(std::vector<Slice>* slices);
  void leave(Slice* slice);
  void release(Slice* slice, EventBatch* done);

  Events& events_;
  const uint64_t tag_;
  const int stallMs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Queued>> pieces_;
  std::map<uint32_t, std::shared_ptr<Read>> reads_;
  std::vector<int> fds_;
  int threads_ = 0;
  bool closing_ = false;
};

}  // namespace perigee
