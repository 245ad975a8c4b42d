// Receives pieces from one peer, straight into their memory. Each data connection has a thread.
// Nothing that the peer says is used before it is checked.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "events.h"
#include "link-frame.h"

namespace perigee {

class Receiver : public std::enable_shared_from_this<Receiver> {
 public:
  Receiver(Events& events, uint64_t tag, int stallMs)
      : events_(events), tag_(tag), stallMs_(stallMs), arrived_(events) {}
  // Takes the descriptor over.
  bool addLink(int fd);
  void expect(uint32_t read, uint32_t piece, std::vector<Range> ranges);
  // Whether nothing is written into the read's memory any more; if not, kQuiet follows then.
  bool forget(uint32_t read);
  // kClosed follows once all threads have ended.
  void close();

 private:
  struct Piece {
    std::vector<Range> ranges;
    uint64_t bytes = 0;
    uint64_t received = 0;
    std::vector<bool> seen;  // of each slice
  };
  struct Read {
    std::map<uint32_t, Piece> pieces;
    size_t missing = 0;  // pieces that have not arrived
    int busy = 0;        // links that write into its memory
    bool forgotten = false;
  };
  // Where a slice goes: without a read its bytes are dropped.
  struct Target {
    std::shared_ptr<Read> read;
    Piece* piece = nullptr;
  };
  void work(int fd);
  bool receiveHeader(int fd, FrameHeader* header);
  bool receiveSlice(int fd, const FrameHeader& header);
  void wait(int fd, int ms);
  bool drop(int fd, uint64_t bytes);
  bool accept(const FrameHeader& header, Target* target);
  bool leaveIfForgotten(uint32_t id, Target* target);
  void leave(uint32_t id, Target* target);
  void leaveLocked(uint32_t id, Target* target);
  void finish(const FrameHeader& header, Target* target, bool correct);
  void corrupt(uint32_t read, uint32_t piece);

  Events& events_;
  const uint64_t tag_;
  const int stallMs_;
  std::mutex mutex_;
  EventBatch arrived_;
  std::map<uint32_t, std::shared_ptr<Read>> reads_;
  std::vector<int> fds_;
  int threads_ = 0;
  bool closing_ = false;
};

}  // namespace perigee
