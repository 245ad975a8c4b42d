// The race of a row's tokens: the largest key = scaled logit + Gumbel noise wins, of equals the
// lowest id.
//
// The key is that of the definition, in f64 and bit by bit, but each thread finds its leader by f32
// keys. Two that are closer than kNear are compared by f64 keys; that happens once in about 10,000
// comparisons. A thread has four consecutive tokens at a time, which share a Philox block. They
// need no logarithm if their largest logit with the largest possible noise of their words is behind
// the leader, and no words if it is behind with the largest noise there is. Where no filter chooses
// among the likeliest, all threads begin with one of these as leader, so that of a peaked
// distribution most tokens need nothing.
#pragma once

#include "gumbel.h"
#include "philox.h"
#include "sample-bound.h"

namespace perigee {

/// Twice the error of an f32 key, with room: noise 3e-6 (gumbel.h), the difference to the largest
/// logit 2e-6 (a ulp of 32), their sum 2e-6.
constexpr float kNear = 1.0f / 16384.0f;

/// Third counter word of the noise's blocks, as in src/base/gumbel.ts.
constexpr uint32_t kNoiseDomain = 1;

/// Maps f64 numbers to integers of the same order; 0 is below all.
__device__ __forceinline__ uint64_t orderOf(double value) {
  const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(value + 0.0));
  return (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
}

/// The f64 number of an order.
__device__ __forceinline__ double doubleOf(uint64_t order) {
  const uint64_t bits = (order >> 63) != 0 ? order ^ (uint64_t{1} << 63) : ~order;
  return __longlong_as_double(static_cast<int64_t>(bits));
}

/// One of four, without an array in memory.
template <typename T>
__device__ __forceinline__ T oneOf(const T (&four)[4], int index) {
  const T first = (index & 1) != 0 ? four[1] : four[0];
  const T second = (index & 1) != 0 ? four[3] : four[2];
  return (index & 2) != 0 ? second : first;
}

/// Where a row's random words come from.
struct NoiseSource {
  uint32_t seedLow;
  uint32_t seedHigh;
  uint32_t position;

  /// Words of tokens 4 * block and the next three.
  __device__ void words(int block, uint32_t (&out)[4]) const {
    out[0] = position;
    out[1] = static_cast<uint32_t>(block);
    out[2] = kNoiseDomain;
    out[3] = 0;
    philox(out, seedLow, seedHigh);
  }

  __device__ uint32_t word(int token) const {
    uint32_t four[4];
    words(token / 4, four);
    return oneOf(four, token % 4);
  }
};

/// The winner of some tokens' race.
struct Winner {
  uint64_t order;  // of its f64 key; 0: no token
  uint32_t place;  // placeOf(token)
};

/// One thread's part of the race.
class Racer {
 public:
  /// Without a leader: some likeliest token takes part, so a key is at least the least noise.
  __device__ Racer(const ScaledRow& row, const NoiseSource& noise)
      : row_(row), noise_(noise), start_(-1), token_(-1), scaled_(0), word_(0), key_(kGumbelMin) {}

  /// `token`: a likeliest one, which takes part.
  __device__ Racer(const ScaledRow& row, const NoiseSource& noise, int token)
      : row_(row), noise_(noise), start_(token), token_(token), scaled_(row.max) {
    word_ = noise.word(token);
    key_ = roughGumbel(word_);
  }

  /// Four consecutive tokens from `first` on take part, as far as `keeps(place, scaled)`.
  template <typename Keeps>
  __device__ void enter(int first, const float (&logits)[4], const Keeps& keeps) {
    const float top = fmaxf(fmaxf(logits[0], logits[1]), fmaxf(logits[2], logits[3]));
    const float least = key_ - kNear - (row_.scaled(top) - row_.max);
    if (!(kGumbelMax >= least)) return;
    uint32_t words[4];
    noise_.words(first / 4, words);
    if (gumbelBound(max(max(words[0], words[1]), max(words[2], words[3]))) < least) return;
    uint32_t open = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = row_.scaled(logits[i]);
      const bool isNear = scaled - row_.max + gumbelBound(words[i]) >= key_ - kNear;
      if (isNear && keeps(i, scaled)) open |= 1u << i;
    }
    // Rare, and long: one copy of the code for all four.
    for (; open != 0; open &= open - 1) {
      const int i = __ffs(static_cast<int>(open)) - 1;
      offer(first + i, row_.scaled(oneOf(logits, i)), oneOf(words, i));
    }
  }

  __device__ void enter(int token, float scaled) { offer(token, scaled, noise_.word(token)); }

  /// The winner of all threads of the block, which call it together. `scratch`: blockReduce's.
  __device__ Winner finish(uint64_t* scratch) const {
    // The token that all began with is one thread's.
    const bool isMine = token_ >= 0 && (token_ != start_ || threadIdx.x == 0);
    const uint32_t best = static_cast<uint32_t>(blockMax(isMine ? orderOf(key_) : 0, scratch));
    const bool isNear = isMine && key_ >= floatOf(best) - kNear;
    return first({isNear ? orderOf(exactKey(scaled_, word_)) : 0, placeOf(token_)}, scratch);
  }

  /// The best of all threads' winners.
  static __device__ Winner first(const Winner& mine, uint64_t* scratch) {
    const uint64_t order = blockMax(mine.order, scratch);
    const uint64_t place = blockMax(mine.order == order ? mine.place : 0, scratch);
    return {order, static_cast<uint32_t>(place)};
  }

 private:
  static __device__ double exactKey(float scaled, uint32_t word) {
    return __dadd_rn(static_cast<double>(scaled), gumbelOf(word));
  }

  __device__ void offer(int token, float scaled, uint32_t word) {
    const float key = scaled - row_.max + roughGumbel(word);
    if (!(key >= key_ - kNear)) return;
    if (token_ >= 0 && key <= key_ + kNear) {
      const double mine = exactKey(scaled, word);
      const double leader = exactKey(scaled_, word_);
      if (mine < leader || (mine == leader && token >= token_)) return;
    }
    token_ = token;
    scaled_ = scaled;
    word_ = word;
    key_ = key;
  }

  const ScaledRow& row_;
  const NoiseSource noise_;
  const int start_;
  // The leader; its f32 key is relative to the largest logit.
  int token_;
  float scaled_;
  uint32_t word_;
  float key_;
};

}  // namespace perigee
