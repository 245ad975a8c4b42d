// Rows of logits: shared code of sampling and log-probabilities.
//
// V vocabulary · R rows · chunk: kChunkTokens consecutive tokens · slice: the tokens that one task
// scans
//
// The largest logit of every chunk is computed first. It makes most later passes over the row
// unnecessary: the k-th largest chunk maximum is a lower bound of the k-th largest logit, and a
// chunk whose maximum is below a threshold is skipped. NaN compares as not larger than any number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "rows.h"
#include "simd.h"
#include "thread-pool.h"

namespace perigee {

constexpr int64_t kChunkTokens = 64;
// A fixed partition of the vocabulary, so that sums over slices do not depend on the thread count.
constexpr int64_t kSliceTokens = 256 * kChunkTokens;
constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

inline int64_t chunksOf(int64_t tokens) { return (tokens + kChunkTokens - 1) / kChunkTokens; }
inline int64_t slicesOf(int64_t tokens) { return (tokens + kSliceTokens - 1) / kSliceTokens; }

/// e^x to about one unit in the last place, for x <= 0; 0 below -708 and for NaN. Plain code that
/// the compiler vectorises. Source of the range reduction: W. Cody and W. Waite 1980, "Software
/// manual for the elementary functions".
inline double expNegative(double x) {
  // x = n ln 2 + r. Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
  const double magic = 6755399441055744.0;
  const double shifted = x * 1.4426950408889634 + magic;
  const double n = shifted - magic;
  double r = __builtin_fma(n, -6.93147180369123816490e-01, x);
  r = __builtin_fma(n, -1.90821492927058770002e-10, r);

  // Taylor series: |r| <= 0.347, so r^14 / 14! is below 2^-57.
  double p = 1.0 / 6227020800.0;
  p = __builtin_fma(p, r, 1.0 / 479001600.0);
  p = __builtin_fma(p, r, 1.0 / 39916800.0);
  p = __builtin_fma(p, r, 1.0 / 3628800.0);
  p = __builtin_fma(p, r, 1.0 / 362880.0);
  p = __builtin_fma(p, r, 1.0 / 40320.0);
  p = __builtin_fma(p, r, 1.0 / 5040.0);
  p = __builtin_fma(p, r, 1.0 / 720.0);
  p = __builtin_fma(p, r, 1.0 / 120.0);
  p = __builtin_fma(p, r, 1.0 / 24.0);
  p = __builtin_fma(p, r, 1.0 / 6.0);
  p = __builtin_fma(p, r, 0.5);
  p = __builtin_fma(p * r, r, r) + 1.0;
  const auto power = bitCast<double>((bitCast<uint64_t>(shifted) + 1023) << 52);
  return x > -708.0 ? p * power : 0.0;
}

/// A row of logits with the largest logit of each chunk.
struct VocabularyRow {
  const float* logits;    // [V]
  const float* chunkMax;  // [chunksOf(V)]
  int64_t tokens;         // V

  int64_t chunkEnd(int64_t chunk) const { return std::min((chunk + 1) * kChunkTokens, tokens); }

  float max() const {
    float largest = kNoLogit;
    for (int64_t chunk = 0; chunk < chunksOf(tokens); ++chunk) {
      largest = chunkMax[chunk] > largest ? chunkMax[chunk] : largest;
    }
    return largest;
  }

  /// The first token whose logit is `largest`; without one the first that is not NaN; else 0.
  int32_t firstOf(float largest) const;

  /// The k-th largest logit, 1 <= k <= V; -inf if fewer are not NaN. `scratch`: V + V / 64 + 1
  /// floats.
  float kthLargest(int64_t k, float* scratch) const;

  /// Calls body(token) by rising id for the logits that are at least `least`.
  template <typename Body>
  void forAtLeast(float least, const Body& body) const {
    for (int64_t chunk = 0; chunk < chunksOf(tokens); ++chunk) {
      if (!(chunkMax[chunk] >= least)) continue;
      for (int64_t token = chunk * kChunkTokens; token < chunkEnd(chunk); ++token) {
        if (logits[token] >= least) body(static_cast<int32_t>(token));
      }
    }
  }
};

/// Rows of logits with their chunk maxima in the pool's shared scratch, followed by `extraBytes`.
class VocabularyRows {
 public:
  VocabularyRows(ThreadPool& pool, const float* logits, int64_t rows, int64_t tokens,
                 int64_t extraBytes);

  VocabularyRow row(int64_t index) const {
    return {logits_ + index * tokens_, chunkMax_ + index * chunksOf(tokens_), tokens_};
  }
  /// Scratch after the maxima, 8-byte aligned.
  void* extra() const { return extra_; }

 private:
  const float* logits_;
  int64_t tokens_;
  float* chunkMax_;
  void* extra_;
};

}  // namespace perigee
