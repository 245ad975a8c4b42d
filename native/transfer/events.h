// What native threads tell JavaScript: a queue, and a pipe that wakes its event loop once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace perigee {

enum class EventKind : int32_t {
  kCopied = 1,    // a copy ended; status 1: its source was valid to the end
  kSent = 2,      // a piece was written to its connections
  kArrived = 3,   // a piece is in its memory and its checksums are right
  kCorrupt = 4,   // a slice of a read had a wrong checksum or size
  kQuiet = 5,     // no memory of a read is touched any more
  kLinkDown = 6,  // a data connection ended or stalled
  kClosed = 7,    // a sender or receiver has ended, with all its threads
};

// Read by src/transfer/native/native-context.ts.
struct Event {
  EventKind kind;
  int32_t status;
  uint32_t read;
  uint32_t piece;
  // Of the copy, sender or receiver, as JavaScript named it.
  uint64_t tag;
};

// Lives as long as the process: threads may be about to post when all else has ended.
class Events {
 public:
  Events();
  void post(const Event& event) { post(&event, 1); }
  void post(const Event* events, size_t count);
  int drain(Event* out, int max);
  int wakeFd() const { return pipe_[0]; }

 private:
  std::mutex mutex_;
  std::vector<Event> waiting_;
  bool signalled_ = false;
  int pipe_[2] = {-1, -1};
};

// Events that threads keep while they have more to do: a wake-up of JavaScript costs more than a
// copy of a small piece. They are posted when so much was moved meanwhile, and before a thread
// waits.
class EventBatch {
 public:
  explicit EventBatch(Events& events) : events_(events) {}
  ~EventBatch() { flush(); }
  EventBatch(const EventBatch&) = delete;
  EventBatch& operator=(const EventBatch&) = delete;
  void add(const Event& event) { kept_.push_back(event); }
  // So many bytes were moved.
  void moved(uint64_t bytes);
  void flush();

 private:
  Events& events_;
  std::vector<Event> kept_;
  uint64_t bytes_ = 0;
};

}  // namespace perigee
