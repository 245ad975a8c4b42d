#include "sender.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "crc32c.h"
#include "socket-wait.h"

namespace perigee {
namespace {

// Of one call of the system.
constexpr size_t kSlicesMax = 64;

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

void Sender::Slice::fillHeader() {
  const Piece& piece = of->piece;
  header = {kFrameMagic, piece.read, piece.piece, uint32_t(bytes), offset,
            crcOf(piece.ranges, offset, bytes), 0};
  header.headerCrc = crc32c(&header, sizeof header - sizeof header.headerCrc);
}

// What of the slice was not sent yet, but no more than an iovec holds.
void Sender::Slice::appendTo(std::vector<iovec>& parts) {
  // Never destroyed: a process may exit while this runs.
  static auto& zeros = *new std::vector<char>(kSliceBytes);
  static const auto& nothing = *new std::vector<Range>{{zeros.data(), kSliceBytes}};
  if (sent == total()) return;
  if (sent < sizeof header) {
    parts.push_back({reinterpret_cast<char*>(&header) + sent, sizeof header - sent});
  }
  const uint64_t from = sent < sizeof header ? 0 : sent - sizeof header;
  appendParts(parts, left ? nothing : of->piece.ranges, left ? from : offset + from, bytes - from);
}

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

void Sender::send(std::vector<Piece> pieces) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
    for (Piece& piece : pieces) {
      auto& read = reads_[piece.read];
      if (read == nullptr) read = std::make_shared<Read>();
      const uint64_t bytes = bytesOf(piece.ranges);
      pieces_.push_back(std::make_shared<Queued>(Queued{std::move(piece), read, bytes}));
    }
  }
  changed_.notify_all();
}

bool Sender::cancel(uint32_t read) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    at = (*at)->piece.read == read ? pieces_.erase(at) : at + 1;
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
  EventBatch done(events_);
  std::vector<Slice> slices;
  bool alive = true;
  while (alive && take(&slices, &done)) {
    alive = sendSlices(fd, &slices, &done);
    if (!alive) {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Slice& slice : slices) leave(&slice);
    }
    slices.clear();
  }
  done.flush();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closing_) events_.post({EventKind::kLinkDown, 0, 0, 0, tag_});
  fds_.erase(std::find(fds_.begin(), fds_.end(), fd));
  ::close(fd);
  if (--threads_ == 0 && closing_) events_.post({EventKind::kClosed, 0, 0, 0, tag_});
}

// One slice of a large piece, or so many small pieces that they are as long together.
bool Sender::take(std::vector<Slice>* slices, EventBatch* done) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pieces_.empty() && !closing_) {
    lock.unlock();
    done->flush();
    lock.lock();
  }
  changed_.wait(lock, [this] { return closing_ || !pieces_.empty(); });
  if (closing_) return false;
  uint64_t room = kSliceBytes;
  while (!pieces_.empty() && slices->size() < kSlicesMax) {
    const std::shared_ptr<Queued> piece = pieces_.front();
    const uint64_t bytes = std::min(kSliceBytes, piece->bytes - piece->given);
    if (bytes > room) break;
    room -= bytes;
    slices->push_back({piece, piece->given, bytes});
    piece->given += bytes;
    if (piece->given == piece->bytes) pieces_.pop_front();
    ++piece->read->busy;
  }
  return true;
}

// A read that is cancelled within a slice goes on with zeros: its memory is free at once, and the
// next slice begins where the reader expects it. A slice that has not begun is left out.
bool Sender::sendSlices(int fd, std::vector<Slice>* slices, EventBatch* done) {
  for (Slice& slice : *slices) slice.fillHeader();
  std::vector<iovec> parts;
  Patience patience(stallMs_);
  for (size_t first = 0; first < slices->size();) {
    leaveCancelled(slices);
    parts.clear();
    for (size_t at = first; at < slices->size() && parts.size() < kRangesMax; ++at) {
      (*slices)[at].appendTo(parts);
    }
    ssize_t count = 0;
    if (!parts.empty()) {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      count = sendmsg(fd, &message, MSG_NOSIGNAL);
      if (!patience.goesOn(count)) return false;
      // The reader takes its time.
      if (count < 0) done->flush();
    }
    uint64_t sent = count > 0 ? uint64_t(count) : 0;
    while (first < slices->size()) {
      Slice& slice = (*slices)[first];
      const uint64_t some = std::min(sent, slice.total() - slice.sent);
      slice.sent += some;
      sent -= some;
      if (slice.sent < slice.total()) break;
      release(&slice, done);
      ++first;
    }
  }
  return true;
}

void Sender::leaveCancelled(std::vector<Slice>* slices) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Slice& slice : *slices) {
    if (!slice.of->read->cancelled) continue;
    leave(&slice);
    if (slice.sent == 0) slice.sent = slice.total();
  }
}

void Sender::leave(Slice* slice) {
  if (slice->left) return;
  slice->left = true;
  const Queued& of = *slice->of;
  const bool last = --of.read->busy == 0;
  if (last && of.read->cancelled) {
    events_.post({EventKind::kQuiet, 0, of.piece.read, 0, tag_});
  }
}

void Sender::release(Slice* slice, EventBatch* done) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leave(slice);
  Queued& of = *slice->of;
  if (of.read->cancelled) return;
  of.written += slice->bytes;
  if (of.written == of.bytes) {
    done->add({EventKind::kSent, 0, of.piece.read, of.piece.piece, tag_});
  }
  done->moved(slice->bytes);
}

}  // namespace perigee
