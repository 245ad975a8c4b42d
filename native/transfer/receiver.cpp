#include "receiver.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "crc32c.h"
#include "socket-wait.h"

namespace perigee {
namespace {

// Longest time for which JavaScript is not told of pieces, where more is to come.
constexpr int kKeepMs = 1;

}  // namespace

bool Receiver::addLink(int fd) {
  prepareLink(fd);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) {
    ::close(fd);
    return false;
  }
  fds_.push_back(fd);
  ++threads_;
  std::thread([self = shared_from_this(), fd] { self->work(fd); }).detach();
  return true;
}

void Receiver::expect(uint32_t read, uint32_t piece, std::vector<Range> ranges) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& known = reads_[read];
  if (known == nullptr) known = std::make_shared<Read>();
  Piece& added = known->pieces[piece];
  ++known->missing;
  added.bytes = bytesOf(ranges);
  added.ranges = std::move(ranges);
  added.seen.resize(added.bytes == 0 ? 1 : (added.bytes + kSliceBytes - 1) / kSliceBytes);
}

bool Receiver::forget(uint32_t read) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reads_.find(read);
  const bool busy = found != reads_.end() && found->second->busy > 0;
  if (found != reads_.end()) {
    found->second->forgotten = true;
    reads_.erase(found);
  }
  return !busy;
}

void Receiver::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closing_ = true;
  for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
  if (threads_ == 0) events_.post({EventKind::kClosed, 0, 0, 0, tag_});
}

void Receiver::work(int fd) {
  FrameHeader header;
  while (receiveHeader(fd, &header) && receiveSlice(fd, header)) {
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  arrived_.flush();
  if (!closing_) events_.post({EventKind::kLinkDown, 0, 0, 0, tag_});
  fds_.erase(std::find(fds_.begin(), fds_.end(), fd));
  ::close(fd);
  if (--threads_ == 0 && closing_) events_.post({EventKind::kClosed, 0, 0, 0, tag_});
}

bool Receiver::receiveHeader(int fd, FrameHeader* header) {
  auto* to = reinterpret_cast<char*>(header);
  Patience patience(stallMs_);
  for (size_t have = 0; have < sizeof *header;) {
    const ssize_t count = recv(fd, to + have, sizeof *header - have, MSG_DONTWAIT);
    const bool waits = count < 0 && errno == EAGAIN;
    if (!patience.goesOn(count) && !(waits && have == 0)) return false;
    if (count > 0) have += size_t(count);
    if (!waits) continue;
    // Between slices a connection may be idle for as long as it likes.
    wait(fd, have == 0 ? -1 : kWaitMs);
  }
  const uint32_t crc = crc32c(header, sizeof *header - sizeof header->headerCrc);
  const bool sound = header->magic == kFrameMagic && header->headerCrc == crc &&
                     header->bytes <= kSliceBytes;
  if (!sound) corrupt(UINT32_MAX, 0);
  return sound;
}

bool Receiver::receiveSlice(int fd, const FrameHeader& header) {
  Target target;
  if (!accept(header, &target)) return drop(fd, header.bytes);
  std::vector<iovec> parts;
  uint32_t crc = 0;
  Patience patience(stallMs_);
  for (uint64_t have = 0; have < header.bytes;) {
    if (leaveIfForgotten(header.read, &target)) return drop(fd, header.bytes - have);
    parts.clear();
    appendParts(parts, target.piece->ranges, header.offset + have, header.bytes - have);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = recvmsg(fd, &message, MSG_DONTWAIT);
    const bool waits = count < 0 && errno == EAGAIN;
    if (!patience.goesOn(count)) {
      leave(header.read, &target);
      return false;
    }
    if (waits) {
      wait(fd, kWaitMs);
      continue;
    }
    uint64_t left = count > 0 ? uint64_t(count) : 0;
    have += left;
    for (const iovec& part : parts) {
      const uint64_t bytes = std::min<uint64_t>(left, part.iov_len);
      crc = crc32c(part.iov_base, bytes, crc);
      left -= bytes;
    }
  }
  finish(header, &target, crc == header.crc);
  return true;
}

// What JavaScript was not told yet does not wait with this thread.
void Receiver::wait(int fd, int ms) {
  if (waitForBytes(fd, kKeepMs)) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    arrived_.flush();
  }
  waitForBytes(fd, ms);
}

bool Receiver::drop(int fd, uint64_t bytes) {
  std::vector<char> nowhere(std::min<uint64_t>(bytes, 65536));
  Patience patience(stallMs_);
  while (bytes > 0) {
    const uint64_t some = std::min<uint64_t>(bytes, nowhere.size());
    const ssize_t count = recv(fd, nowhere.data(), some, MSG_DONTWAIT);
    const bool waits = count < 0 && errno == EAGAIN;
    if (!patience.goesOn(count)) return false;
    if (waits) wait(fd, kWaitMs);
    if (count > 0) bytes -= uint64_t(count);
  }
  return true;
}

// A slice is taken once, begins at a slice's border and is as long as the piece says: so all of a
// piece was written when the sum of its slices is its size.
bool Receiver::accept(const FrameHeader& header, Target* target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reads_.find(header.read);
  if (found == reads_.end()) return false;
  const auto piece = found->second->pieces.find(header.piece);
  const uint64_t slice = header.offset / kSliceBytes;
  const bool fits = piece != found->second->pieces.end() && header.offset % kSliceBytes == 0 &&
                    slice < piece->second.seen.size() && !piece->second.seen[slice] &&
                    header.bytes == std::min(kSliceBytes, piece->second.bytes - header.offset);
  if (!fits) {
    events_.post({EventKind::kCorrupt, 0, header.read, header.piece, tag_});
    return false;
  }
  piece->second.seen[slice] = true;
  *target = {found->second, &piece->second};
  ++target->read->busy;
  return true;
}

bool Receiver::leaveIfForgotten(uint32_t id, Target* target) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!target->read->forgotten) return false;
  }
  leave(id, target);
  return true;
}

void Receiver::leave(uint32_t id, Target* target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaveLocked(id, target);
}

void Receiver::leaveLocked(uint32_t id, Target* target) {
  const bool last = --target->read->busy == 0;
  if (last && target->read->forgotten) events_.post({EventKind::kQuiet, 0, id, 0, tag_});
}

void Receiver::finish(const FrameHeader& header, Target* target, bool correct) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaveLocked(header.read, target);
  if (target->read->forgotten) return;
  Piece& piece = *target->piece;
  if (correct) piece.received += header.bytes;
  if (!correct) {
    corrupt(header.read, header.piece);
  } else if (piece.received == piece.bytes) {
    arrived_.add({EventKind::kArrived, 0, header.read, header.piece, tag_});
    // Its reader waits for nothing else.
    if (--target->read->missing == 0) arrived_.flush();
  }
  arrived_.moved(header.bytes);
}

void Receiver::corrupt(uint32_t read, uint32_t piece) {
  events_.post({EventKind::kCorrupt, 0, read, piece, tag_});
}

}  // namespace perigee
