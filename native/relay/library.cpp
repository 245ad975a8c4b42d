// What JavaScript calls (src/cluster/router/native-relay.ts), from one thread.
#include <cstring>

#include "relay.h"

using namespace perigee;

#define PERIGEE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kHeaderWords = 7;
constexpr int kChoicesMax = 64;
constexpr int kGapBoundsMax = 256;

struct Context {
  std::unique_ptr<Relay> relay;
  // Of the loan that ended last, until it is copied.
  HandOver over;
};

}  // namespace

// Bounds of gaps are ascending.
PERIGEE_API void* perigee_relay_open(const int64_t* gapBoundsUs, int32_t bounds,
                                     int32_t* wakeFd) {
  if (bounds < 0 || bounds > kGapBoundsMax) return nullptr;
  auto relay = Relay::open(std::vector<int64_t>(gapBoundsUs, gapBoundsUs + bounds));
  if (relay == nullptr) return nullptr;
  *wakeFd = relay->wakeFd();
  return new Context{std::move(relay), {}};
}

PERIGEE_API void perigee_relay_close(void* context) { delete static_cast<Context*>(context); }

// 1: lent. `choices`: 0 for streams without markers. `gapDeadlineUs`: 0 where there is none, below
// 0 where gaps are not counted. `agoUs`: since the last token came.
PERIGEE_API int32_t perigee_relay_lend(void* context, int32_t worker, int32_t client,
                                       int32_t choices, uint64_t live, int64_t contentBytesMax,
                                       int64_t gapDeadlineUs, int64_t agoUs, uint32_t* loan) {
  if (choices < 0 || choices > kChoicesMax || contentBytesMax < 0) return 0;
  const GapWatch gaps{gapDeadlineUs >= 0, gapDeadlineUs};
  const Form form{choices, live};
  const Lent lent{worker, client, form, uint64_t(contentBytesMax), gaps, agoUs};
  return static_cast<Context*>(context)->relay->lend(lent, loan) ? 1 : 0;
}

// As many numbers as there are bounds, and four: see GapCounts.
PERIGEE_API void perigee_relay_gaps(void* context, double* into) {
  static_cast<Context*>(context)->relay->gaps().read(into);
}

// Returns how many of `told` were written. `which`: see Looked.
PERIGEE_API int32_t perigee_relay_drain(void* context, int32_t which, void* told, int32_t max) {
  auto& relay = *static_cast<Context*>(context)->relay;
  return relay.drain(static_cast<Looked>(which), static_cast<Told*>(told), max);
}

// Bytes of what is left, for `perigee_relay_left`; -1: there is no such loan.
PERIGEE_API int64_t perigee_relay_end(void* context, uint32_t loan) {
  auto* own = static_cast<Context*>(context);
  own->over = HandOver();
  if (!own->relay->end(loan, &own->over)) return -1;
  const HandOver& over = own->over;
  size_t bytes = kHeaderWords * 4 + over.taken.ids.size() * 4;
  bytes += over.unsent.size() + over.pending.size();
  for (const std::string& ids : over.taken.ids) bytes += ids.size();
  return int64_t(bytes);
}

// 32-bit words: tokens, whether anything was sent, bytes of content, unsent and pending bytes, time
// since the last token and since the last pending byte in us, the length of each choice's ids; then
// unsent and pending bytes and ids, in that order.
PERIGEE_API void perigee_relay_left(void* context, uint8_t* into) {
  HandOver over = std::move(static_cast<Context*>(context)->over);
  std::vector<uint32_t> words = {over.tokens, over.hasSent ? 1u : 0u,
                                 uint32_t(over.taken.contentBytes), uint32_t(over.unsent.size()),
                                 uint32_t(over.pending.size()), over.agoUs,
                                 over.pendingAgoUs};
  for (const std::string& ids : over.taken.ids) words.push_back(uint32_t(ids.size()));
  const auto put = [&into](const void* bytes, size_t size) {
    if (size > 0) memcpy(into, bytes, size);
    into += size;
  };
  put(words.data(), words.size() * 4);
  put(over.unsent.data(), over.unsent.size());
  put(over.pending.data(), over.pending.size());
  for (const std::string& ids : over.taken.ids) put(ids.data(), ids.size());
}
