// A thread that relays the plain part of answers (plain-answer.h) from workers to clients, so that
// no token of them costs JavaScript anything. At whatever is not plain it stops with that answer
// and says so; JavaScript then goes on at exactly that byte.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gap-counts.h"
#include "plain-answer.h"

namespace perigee {

// What a stopped loan has left.
struct HandOver {
  Taken taken;
  // Since the last drain.
  uint32_t tokens = 0;
  bool hasSent = false;
  // Since the last token came.
  uint32_t agoUs = 0;
  // Of a client's chunk that the connection took in part, or not at all.
  std::string unsent;
  // Of the worker's bytes, from the beginning of a chunk.
  std::string pending;
  // Since the last of them came.
  uint32_t pendingAgoUs = 0;
};

// What happened with one loan since it was last asked for. Read by
// src/cluster/router/native-relay.ts.
struct Told {
  uint32_t loan;
  uint32_t tokens;
  uint32_t isStopped;
  // Since the last token came.
  uint32_t agoUs;
};

// Which loans a drain looks at.
enum class Looked : int32_t {
  kStopped = 0,
  // But for one that the thread is at: what it sends is told the next time.
  kFree = 1,
  kAll = 2,
};

// What is lent. Both descriptors are duplicated.
struct Lent {
  int worker = -1;
  int client = -1;
  Form form;
  uint64_t contentBytesMax = 0;
  GapWatch gaps;
  // Since the last token came.
  int64_t agoUs = 0;
};

class Relay {
 public:
  // Null: the system has no descriptors or threads left.
  static std::unique_ptr<Relay> open(std::vector<int64_t> gapBoundsUs);
  // Ends the thread; loans that are left are closed.
  ~Relay();

  // JavaScript owns and closes it.
  int wakeFd() const { return pipe_[0]; }

  // Of all loans since the start.
  const GapCounts& gaps() const { return gaps_; }

  // False: no room, or the descriptors are none.
  bool lend(const Lent& lent, uint32_t* loan);
  int drain(Looked which, Told* out, int max);
  // Afterwards the thread touches neither connection. False: there is no such loan.
  bool end(uint32_t loan, HandOver* out);

 private:
  struct Stream;

  explicit Relay(std::vector<int64_t> gapBoundsUs) : gaps_(std::move(gapBoundsUs)) {}
  bool start();
  void run();
  void serve(uint32_t loan, uint32_t events);
  // Whether the stream goes on.
  bool relayAll(Stream& stream, uint32_t events);
  // Has the system tell once of the worker's bytes, those that are there included: told until they
  // are read, it looks at each connection twice.
  bool watch(const Stream& stream, int operation);
  // Those that were read.
  bool relayBytes(Stream& stream, size_t size);
  bool send(Stream& stream);
  void release(Stream& stream);
  // Under the stream's lock.
  Told tell(Stream& stream, int64_t now);
  int drainStopped(Told* out, int max);
  void wake();

  static constexpr int kStreamsMax = 1 << 16;

  GapCounts gaps_;
  int epoll_ = -1;
  int stop_ = -1;
  int pipe_[2] = {-1, -1};
  std::atomic<bool> isWoken_{false};
  std::thread thread_;
  // Of the thread: what it reads, the content in it, and the chunk that it sends.
  std::vector<char> read_;
  std::string content_;
  std::string chunk_;
  // By place; made when first needed, and kept. Guarded by `mutex_`, but read by the thread.
  std::vector<std::atomic<Stream*>> streams_ = std::vector<std::atomic<Stream*>>(kStreamsMax);
  std::mutex mutex_;
  int made_ = 0;
  std::vector<int> free_;
  // Those that the thread has stopped at, and that no drain has told of.
  std::vector<uint32_t> stopped_;
};

}  // namespace perigee
