#include "sender.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "crc32c.h"
#include "socket-wait.h"

namespace perigee {
namespace {

uint32_t crcOf(const std::vector<Range>& ranges, uint64_t offset, uint64_t bytes) {
  uint32_t crc = 0;
  std::vector<iovec> parts;
  for (uint64_t done = 0; done < bytes;) {
    parts.clear();
    appendParts(parts, ranges, offset + done, bytes - done);
    for (const iovec& part : parts) {
      crc = crc32c(part.iov_base, part.iov_len, crc);
      done += part.iov_len;
    }
  }
  return crc;
}

}  // namespace

bool Sender::addLink(int fd) {
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

void Sender::send(uint32_t read, uint32_t piece, std::vector<Range> ranges) {
  auto added = std::make_shared<Piece>();
  added->read = read;
  added->piece = piece;
  added->bytes = bytesOf(ranges);
  added->ranges = std::move(ranges);
  const bool several = added->bytes > kSliceBytes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
    auto& known = reads_[read];
    if (known == nullptr) known = std::make_shared<Read>();
    pieces_.push_back(std::move(added));
  }
  if (several) {
    changed_.notify_all();
  } else {
    changed_.notify_one();
  }
}

bool Sender::cancel(uint32_t read) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    at = (*at)->read == read ? pieces_.erase(at) : at + 1;
  }
  const auto found = reads_.find(read);
  const bool busy = found != reads_.end() && found->second->busy > 0;
  if (found != reads_.end()) {
    found->second->cancelled = true;
    reads_.erase(found);
  }
  return !busy;
}

void Sender::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closing_ = true;
  for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
  changed_.notify_all();
  if (threads_ == 0) events_.post({EventKind::kClosed, 0, 0, 0, tag_});
}

void Sender::work(int fd) {
  Slice slice;
  bool alive = true;
  while (alive && take(&slice)) {
    alive = sendSlice(fd, &slice);
    release(&slice, alive);
    slice = {};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closing_) events_.post({EventKind::kLinkDown, 0, 0, 0, tag_});
  fds_.erase(std::find(fds_.begin(), fds_.end(), fd));
  ::close(fd);
  if (--threads_ == 0 && closing_) events_.post({EventKind::kClosed, 0, 0, 0, tag_});
}

bool Sender::take(Slice* slice) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || !pieces_.empty(); });
  if (closing_) return false;
  const std::shared_ptr<Piece> piece = pieces_.front();
  const uint64_t bytes = std::min(kSliceBytes, piece->bytes - piece->given);
  *slice = {piece, reads_[piece->read], piece->given, bytes};
  piece->given += bytes;
  if (piece->given == piece->bytes) pieces_.pop_front();
  ++slice->read->busy;
  return true;
}

// A read that is cancelled within a slice goes on with zeros: its memory is free at once, and the
// next slice begins where the reader expects it.
bool Sender::sendSlice(int fd, Slice* slice) {
  // Never destroyed: a process may exit while this runs.
  static auto& zeros = *new std::vector<char>(kSliceBytes);
  static const auto& nothing = *new std::vector<Range>{{zeros.data(), kSliceBytes}};
  const Piece& piece = *slice->piece;
  FrameHeader header{kFrameMagic, piece.read, piece.piece, uint32_t(slice->bytes), slice->offset,
                     crcOf(piece.ranges, slice->offset, slice->bytes), 0};
  header.headerCrc = crc32c(&header, sizeof header - sizeof header.headerCrc);
  std::vector<iovec> parts;
  Patience patience(stallMs_);
  const uint64_t total = sizeof header + slice->bytes;
  for (uint64_t sent = 0; sent < total;) {
    const bool cancelled = leaveIfCancelled(slice);
    parts.clear();
    if (sent < sizeof header) {
      parts.push_back({reinterpret_cast<char*>(&header) + sent, sizeof header - sent});
    }
    const uint64_t from = sent < sizeof header ? 0 : sent - sizeof header;
    appendParts(parts, cancelled ? nothing : piece.ranges, cancelled ? from : slice->offset + from,
                slice->bytes - from);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (!patience.goesOn(count)) return false;
    if (count > 0) sent += uint64_t(count);
  }
  return true;
}

bool Sender::leaveIfCancelled(Slice* slice) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slice->read->cancelled) leave(slice);
  return slice->read->cancelled;
}

void Sender::leave(Slice* slice) {
  if (slice->left) return;
  slice->left = true;
  const bool last = --slice->read->busy == 0;
  if (last && slice->read->cancelled) {
    events_.post({EventKind::kQuiet, 0, slice->piece->read, 0, tag_});
  }
}

void Sender::release(Slice* slice, bool written) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leave(slice);
  Piece& piece = *slice->piece;
  if (!written || slice->read->cancelled) return;
  piece.written += slice->bytes;
  if (piece.written == piece.bytes) {
    events_.post({EventKind::kSent, 0, piece.read, piece.piece, tag_});
  }
}

}  // namespace perigee
