#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>

namespace perigee {
namespace {

constexpr int kEventsMax = 256;
constexpr size_t kReadBytes = 1 << 16;
// Linux acknowledges by itself what it has for so long.
constexpr int64_t kDelayedAckUs = 40'000;
// Of one connection, until others have their turn.
constexpr int kReadsMax = 16;
constexpr uint64_t kStop = ~uint64_t(0);
// A loan's name: its stream's place, and below which loan of that stream it is.
constexpr int kPlaceBits = 16;
// A size of a chunk in hex, and its end of line.
constexpr size_t kSizeLineMax = 20;

int placeOf(uint32_t loan) { return int(loan & ((1u << kPlaceBits) - 1)); }

int64_t nowUs() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

uint32_t agoUs(int64_t now, int64_t then) {
  return uint32_t(std::clamp<int64_t>(now - then, 0, UINT32_MAX));
}

// Of a connection that mostly receives, Linux acknowledges each small piece when it is read, which
// was a quarter of what relaying a token took. From now on it acknowledges each second one, until
// one comes so late that it acknowledges the one before by itself. Only for senders that do not
// wait for acknowledgements (Nagle's algorithm off).
void acknowledgeLess(int fd) {
  const int isQuick = 0;
  setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &isQuick, sizeof isQuick);
}

void closeFd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

struct Relay::Stream {
  std::mutex mutex;
  uint32_t loan = 0;
  bool isLent = false;
  // The thread has stopped; its descriptors are open until the loan ends.
  bool isStopped = false;
  bool isTold = false;
  int worker = -1;
  int client = -1;
  Form form;
  uint64_t contentBytesMax = 0;
  GapWatch gaps;
  // When its last token came, and its last bytes.
  int64_t tokenUs = 0;
  int64_t readUs = 0;
  uint32_t tokensTold = 0;
  bool hasSent = false;
  bool hasNews = false;
  Taken taken;
  std::string unsent;
  std::string pending;
};

std::unique_ptr<Relay> Relay::open(std::vector<int64_t> gapBoundsUs) {
  std::unique_ptr<Relay> relay(new Relay(std::move(gapBoundsUs)));
  return relay->start() ? std::move(relay) : nullptr;
}

bool Relay::start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || stop_ < 0 || pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  epoll_event event{EPOLLIN, {}};
  event.data.u64 = kStop;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event) != 0) return false;
  read_.resize(kReadBytes);
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // Asked below: there is no thread.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread_.joinable()) return false;
  pthread_setname_np(thread_.native_handle(), "perigee-relay");
  return true;
}

Relay::~Relay() {
  const bool hasRun = thread_.joinable();
  if (hasRun) {
    const uint64_t one = 1;
    while (write(stop_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  for (int place = 0; place < made_; ++place) {
    Stream* stream = streams_[size_t(place)];
    release(*stream);
    delete stream;
  }
  closeFd(&epoll_);
  closeFd(&stop_);
  closeFd(&pipe_[1]);
  if (!hasRun) closeFd(&pipe_[0]);
}

bool Relay::lend(const Lent& lent, uint32_t* loan) {
  int place = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else if (made_ < kStreamsMax) {
      place = made_;
      streams_[size_t(place)] = new Stream;
      streams_[size_t(place)].load()->loan = uint32_t(place);
      ++made_;
    } else {
      return false;
    }
  }
  Stream& stream = *streams_[size_t(place)];
  const std::lock_guard<std::mutex> lock(stream.mutex);
  stream.loan += 1u << kPlaceBits;
  stream.worker = fcntl(lent.worker, F_DUPFD_CLOEXEC, 0);
  stream.client = fcntl(lent.client, F_DUPFD_CLOEXEC, 0);
  stream.form = lent.form;
  stream.contentBytesMax = lent.contentBytesMax;
  stream.gaps = lent.gaps;
  stream.tokenUs = nowUs() - lent.agoUs;
  stream.taken.ids.assign(size_t(lent.form.choices), std::string());
  stream.isLent = true;
  if (stream.worker < 0 || stream.client < 0 || !watch(stream, EPOLL_CTL_ADD)) {
    release(stream);
    const std::lock_guard<std::mutex> all(mutex_);
    free_.push_back(place);
    return false;
  }
  // The first piece counts as late.
  stream.readUs = INT64_MIN / 2;
  *loan = stream.loan;
  return true;
}

Told Relay::tell(Stream& stream, int64_t now) {
  const Told told{stream.loan, stream.taken.tokens - stream.tokensTold, stream.isStopped ? 1u : 0u,
                  agoUs(now, stream.tokenUs)};
  stream.tokensTold = stream.taken.tokens;
  stream.hasNews = false;
  stream.isTold = stream.isStopped;
  return told;
}

int Relay::drainStopped(Told* out, int max) {
  // Before the look: what stops behind it wakes again.
  isWoken_ = false;
  const int64_t now = nowUs();
  int count = 0;
  while (count < max) {
    uint32_t loan = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopped_.empty()) break;
      loan = stopped_.back();
      stopped_.pop_back();
    }
    Stream& stream = *streams_[size_t(placeOf(loan))];
    const std::lock_guard<std::mutex> lock(stream.mutex);
    // It may have ended since.
    const bool isIt = stream.isLent && stream.loan == loan && !stream.isTold;
    if (isIt) out[count++] = tell(stream, now);
  }
  return count;
}

int Relay::drain(Looked which, Told* out, int max) {
  if (which == Looked::kStopped) return drainStopped(out, max);
  const int64_t now = nowUs();
  int count = 0;
  // Only the thread that lends and drains makes streams.
  for (int place = 0; place < made_ && count < max; ++place) {
    Stream& stream = *streams_[size_t(place)];
    // The system may have taken the thread's core meanwhile: then this would wait for long.
    std::unique_lock<std::mutex> lock(stream.mutex, std::defer_lock);
    if (which == Looked::kAll) lock.lock();
    else if (!lock.try_lock()) continue;
    const bool isNewlyStopped = stream.isStopped && !stream.isTold;
    if (stream.isLent && (stream.hasNews || isNewlyStopped)) out[count++] = tell(stream, now);
  }
  return count;
}

bool Relay::end(uint32_t loan, HandOver* out) {
  const int place = placeOf(loan);
  if (place >= made_) return false;
  Stream& stream = *streams_[size_t(place)];
  const std::lock_guard<std::mutex> lock(stream.mutex);
  if (!stream.isLent || stream.loan != loan) return false;
  out->tokens = stream.taken.tokens - stream.tokensTold;
  out->hasSent = stream.hasNews;
  const int64_t now = nowUs();
  out->agoUs = agoUs(now, stream.tokenUs);
  out->pendingAgoUs = stream.pending.empty() ? 0 : agoUs(now, stream.readUs);
  out->taken = std::move(stream.taken);
  out->unsent = std::move(stream.unsent);
  out->pending = std::move(stream.pending);
  release(stream);
  const std::lock_guard<std::mutex> all(mutex_);
  free_.push_back(place);
  return true;
}

bool Relay::watch(const Stream& stream, int operation) {
  epoll_event event{EPOLLIN | EPOLLRDHUP | EPOLLET, {}};
  event.data.u64 = stream.loan;
  return epoll_ctl(epoll_, operation, stream.worker, &event) == 0;
}

// Under the stream's lock, or without the thread.
void Relay::release(Stream& stream) {
  // The connection lives on under other descriptors: closing this one would not end its events.
  if (stream.worker >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, stream.worker, nullptr);
  closeFd(&stream.worker);
  closeFd(&stream.client);
  stream.isLent = stream.isStopped = stream.isTold = stream.hasNews = false;
  stream.tokensTold = 0;
  stream.taken = Taken();
  stream.unsent = std::string();
  stream.pending = std::string();
}

void Relay::wake() {
  if (isWoken_.exchange(true)) return;
  const char byte = 1;
  // A full pipe is a pipe that wakes its reader already.
  if (write(pipe_[1], &byte, 1) < 0) return;
}

void Relay::run() {
  epoll_event events[kEventsMax];
  for (;;) {
    const int count = epoll_wait(epoll_, events, kEventsMax, -1);
    for (int at = 0; at < count; ++at) {
      if (events[at].data.u64 == kStop) return;
      serve(uint32_t(events[at].data.u64), events[at].events);
    }
  }
}

void Relay::serve(uint32_t loan, uint32_t events) {
  Stream& stream = *streams_[size_t(placeOf(loan))];
  {
    const std::lock_guard<std::mutex> lock(stream.mutex);
    // Since the event came, the loan may have ended, and the next one have begun.
    if (!stream.isLent || stream.isStopped || stream.loan != loan) return;
    // A failure is told once: it is left to the connection's owner.
    if ((events & EPOLLERR) == 0 && relayAll(stream, events)) return;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, stream.worker, nullptr);
    stream.isStopped = true;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_.push_back(loan);
  }
  wake();
}

bool Relay::relayAll(Stream& stream, uint32_t events) {
  // An end that came with bytes is not told of again.
  const bool hasEnded = (events & (EPOLLRDHUP | EPOLLHUP)) != 0;
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const ssize_t count = recv(stream.worker, read_.data(), read_.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;  // the next read, its owner's, says so again
    if (!relayBytes(stream, size_t(count))) return false;
    if (size_t(count) < read_.size() && !hasEnded) return true;
  }
  return watch(stream, EPOLL_CTL_MOD);
}

bool Relay::relayBytes(Stream& stream, size_t size) {
  // Only the end of a chunk is ever waited for, so what waits is small.
  const char* bytes = read_.data();
  if (!stream.pending.empty()) {
    stream.pending.append(bytes, size);
    bytes = stream.pending.data();
    size = stream.pending.size();
  }
  Taken& taken = stream.taken;
  // One room for the content of all streams.
  taken.content.swap(content_);
  taken.content.clear();
  const uint32_t tokensBefore = taken.tokens;
  const Progress progress = takePlain(bytes, size, stream.form, stream.contentBytesMax, &taken);
  const int64_t lastUs = stream.readUs;
  stream.readUs = nowUs();
  // Markers are our own workers': these do not wait.
  if (stream.form.choices > 0 && stream.readUs - lastUs >= kDelayedAckUs) {
    acknowledgeLess(stream.worker);
  }
  if (taken.tokens != tokensBefore) {
    gaps_.add(stream.readUs - stream.tokenUs, stream.gaps);
    stream.tokenUs = stream.readUs;
  }
  stream.pending = std::string(bytes + progress.bytes, size - progress.bytes);
  const bool isSent = send(stream);
  taken.content.swap(content_);
  return isSent && progress.isPlain;
}

bool Relay::send(Stream& stream) {
  const std::string& content = stream.taken.content;
  if (content.empty()) {
    stream.hasNews |= stream.taken.tokens != stream.tokensTold;
    return true;
  }
  char size[kSizeLineMax];
  const int digits = snprintf(size, sizeof size, "%zx\r\n", content.size());
  chunk_.assign(size, size_t(digits)).append(content).append("\r\n");
  stream.hasNews = true;
  const ssize_t sent =
      ::send(stream.client, chunk_.data(), chunk_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == ssize_t(chunk_.size())) return true;
  // Full, or failed: its owner waits for room, or finds the failure.
  stream.unsent.assign(chunk_, sent < 0 ? 0 : size_t(sent));
  return false;
}

}  // namespace perigee
