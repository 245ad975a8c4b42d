// Log-probabilities and ranks of given tokens, and the top-k tokens.
//
// Formula  chosen = logit - ln(sum of exp(logits)), rank = 1 + number of larger logits
// Shapes   logits [R, V]; tokens, chosen, ranks [R]; topTokens, topLogprobs [R, k]
// Work     one task per slice of a row for maxima and sums (f64), then one task per row for the top
//          k
// Bound    memory: 8 V bytes per row. The top k reads only the chunks that hold them (vocabulary.h)
// Checked  test/contracts/device-ops.ts, logprobs
#include <cmath>

#include "params.h"
#include "vocabulary.h"

namespace perigee {

struct LogprobsParams {
  ThreadPool* pool;
  const float* logits;
  const int32_t* tokens;
  float* chosen;
  int32_t* ranks;
  int32_t* topTokens;  // null if topCount is 0
  float* topLogprobs;
  Int topCount;
  Int count, vocabulary;
};

namespace {

/// Sum of weights over a row or a slice of it, and the number of logits larger than the chosen one.
struct Tally {
  double sum;  // of exp(logit - max)
  int64_t larger;
};

Tally tallyOf(const VocabularyRow& row, double max, float chosen, int64_t slice) {
  constexpr int64_t kTogether = 64;
  double weights[kTogether];
  Tally tally = {0.0, 0};
  const int64_t end = std::min((slice + 1) * kSliceTokens, row.tokens);
  for (int64_t token = slice * kSliceTokens; token < end; token += kTogether) {
    const int64_t count = std::min(kTogether, end - token);
    const float* const logits = row.logits + token;
    for (int64_t i = 0; i < count; ++i) weights[i] = expNegative(logits[i] - max);
    int32_t larger = 0;
    for (int64_t i = 0; i < count; ++i) larger += logits[i] > chosen ? 1 : 0;
    for (int64_t i = 0; i < count; ++i) tally.sum += weights[i];
    tally.larger += larger;
  }
  return tally;
}

// The k largest logits, best first, ties by rising id. NaN counts as missing: zeros at the end.
void writeTop(const VocabularyRow& row, int64_t k, double normalizer, int32_t* tokens,
              float* logprobs, ThreadPool& pool, int thread) {
  auto* const scratch = pool.scratch<float>(2 * row.tokens + row.tokens / kChunkTokens + 1, thread);
  const float kth = row.kthLargest(k, scratch);
  auto* const found = reinterpret_cast<int32_t*>(scratch);
  int64_t count = 0;
  row.forAtLeast(kth, [&](int32_t token) { found[count++] = token; });
  const int64_t kept = std::min(k, count);
  std::partial_sort(found, found + kept, found + count, [&](int32_t a, int32_t b) {
    const float first = row.logits[a], second = row.logits[b];
    return first > second || (first == second && a < b);
  });
  for (int64_t i = 0; i < k; ++i) {
    tokens[i] = i < kept ? found[i] : 0;
    logprobs[i] = i < kept ? static_cast<float>(row.logits[found[i]] - normalizer) : kNoLogit;
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_logprobs(const LogprobsParams* params) {
  const LogprobsParams& p = *params;
  const int64_t rows = p.count;
  const int64_t slices = slicesOf(p.vocabulary);
  const int64_t tallyBytes = rows * slices * static_cast<int64_t>(sizeof(Tally));
  const VocabularyRows vocabulary(*p.pool, p.logits, rows, p.vocabulary, tallyBytes);
  auto* const tallies = static_cast<Tally*>(vocabulary.extra());

  p.pool->parallelFor(rows * slices, [&](int64_t task, int) {
    const int64_t r = task / slices;
    const VocabularyRow row = vocabulary.row(r);
    tallies[task] = tallyOf(row, row.max(), row.logits[p.tokens[r]], task % slices);
  });
  p.pool->parallelFor(rows, [&](int64_t r, int thread) {
    const VocabularyRow row = vocabulary.row(r);
    Tally total = {0.0, 0};
    for (int64_t slice = 0; slice < slices; ++slice) {
      total.sum += tallies[r * slices + slice].sum;
      total.larger += tallies[r * slices + slice].larger;
    }
    const double normalizer = row.max() + std::log(total.sum);
    p.chosen[r] = static_cast<float>(row.logits[p.tokens[r]] - normalizer);
    p.ranks[r] = static_cast<int32_t>(1 + total.larger);
    const int64_t k = p.topCount;
    if (k > 0) {
      writeTop(row, k, normalizer, p.topTokens + r * k, p.topLogprobs + r * k, *p.pool, thread);
    }
  });
}

}  // namespace perigee
