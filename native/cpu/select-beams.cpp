// One level of a beam search: of each sequence, the likeliest continuations of its beams.
//
// Formula  sum = scores[b] + topLogprobs[b][k] for all b, k of a sequence; the W largest, best
//          first, equal ones by rising b, then k; NaN comes last
// Shapes   topTokens, topLogprobs [S * before, K]; scores [S * before]; outScores, tokens, parents
//          [S * W]
// Work     tasks of consecutive sequences
// Bound    latency: a sequence has at most 256 candidates
// Checked  test/contracts/device-ops/drafter.ts, selectBeams
// Source   Cheng et al. 2024, "Recurrent drafter for fast speculative decoding in large language
//          models"
#include <algorithm>

#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct SelectBeamsParams {
  ThreadPool* pool;
  const int32_t* topTokens;
  const float* topLogprobs;
  const float* scores;      // null: 0
  const int32_t* tokenMap;  // null: a token stands for itself
  float* outScores;
  int32_t* tokens;
  int32_t* parents;
  Int count, before, topCount, width;  // S, before, K, W
};

namespace {

// The same as in src/devices/drafter-counts.ts.
constexpr int kCandidatesMax = 256;
// A candidate is sorted in about the time in which this many floats are copied.
constexpr int64_t kCandidateFloats = 32;

struct Candidate {
  float sum;
  int32_t number;  // b * K + k
};

bool comesBefore(const Candidate& a, const Candidate& b) {
  const bool isNan = a.sum != a.sum, isOtherNan = b.sum != b.sum;
  if (isNan != isOtherNan) return isOtherNan;
  return a.sum > b.sum || (!(a.sum < b.sum) && a.number < b.number);
}

void selectFor(const SelectBeamsParams& p, int64_t sequence) {
  const int64_t width = p.width, topCount = p.topCount;
  const int64_t row = sequence * p.before;
  const int32_t candidates = static_cast<int32_t>(p.before * topCount);
  Candidate found[kCandidatesMax];
  for (int32_t number = 0; number < candidates; ++number) {
    const float score = p.scores == nullptr ? 0.0f : p.scores[row + number / topCount];
    found[number] = {score + p.topLogprobs[row * topCount + number], number};
  }
  std::partial_sort(found, found + width, found + candidates, comesBefore);
  for (int64_t place = 0; place < width; ++place) {
    const auto [sum, number] = found[place];
    const int32_t token = p.topTokens[row * topCount + number];
    const int64_t beam = sequence * width + place;
    p.outScores[beam] = sum;
    p.tokens[beam] = p.tokenMap == nullptr ? token : p.tokenMap[token];
    p.parents[beam] = static_cast<int32_t>(row + number / topCount);
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_select_beams(const SelectBeamsParams* params) {
  const SelectBeamsParams& p = *params;
  const int64_t floats = p.before * p.topCount * kCandidateFloats;
  parallelRows(*p.pool, p.count, floats, [&](int64_t row, int) { selectFor(p, row); });
}

}  // namespace perigee
