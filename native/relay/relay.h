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

#include "plain-answer.h"

namespace perigee {

// What a stopped loan has left.
struct HandOver {
  Taken taken;
  // Since the last drain.
  uint32_t tokens = 0;
  bool hasSent = false;
  // Of a client's chunk that the connection took in part, or not at all.
  std::string unsent;
  // Of the worker's bytes, from the beginning of a chunk.
  std::string pending;
};

// What happened with one loan since it was last asked for. Read by
// src/cluster/router/native-relay.ts.
struct Told {
  uint32_t loan;
  uint32_t tokens;
  uint32_t isStopped;
};

class Relay {
 public:
  // Null: the system has no descriptors or threads left.
  static std::unique_ptr<Relay> open();
  // Ends the thread; loans that are left are closed.
  ~Relay();

  // JavaScript owns and closes it.
  int wakeFd() const { return pipe_[0]; }

  // Both descriptors are duplicated. False: no room, or the descriptors are none.
  bool lend(int worker, int client, const Form& form, uint64_t contentBytesMax, uint32_t* loan);
  int drain(Told* out, int max);
  // Afterwards the thread touches neither connection. False: there is no such loan.
  bool end(uint32_t loan, HandOver* out);

 private:
  struct Stream;

  Relay() = default;
  bool start();
  void run();
  void serve(uint32_t loan, uint32_t events);
  // Whether the stream goes on.
  bool relayOnce(Stream& stream);
  bool send(Stream& stream);
  void release(Stream& stream);
  void wake();

  static constexpr int kStreamsMax = 1 << 16;

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
};

}  // namespace perigee
