// Log-probabilities of chosen tokens, their ranks, and the likeliest tokens.
//
// Formula  chosen = logit - ln(sum of exp(logits)), rank = 1 + how many logits are larger
// Shapes   logits [R, V]; tokens, chosen, ranks [R]; topTokens, topLogprobs [R, k]
// Work     a block per row walks over it: for the largest, for the sum, and once for each of the
//          likeliest tokens
// Bound    L2: 4 V bytes a walk
// Checked  bench/gpu/smoke.mjs, logprobs
#include "vocabulary.h"

namespace perigee {

struct LogprobsParams {
  const float* logits;
  const int* tokens;
  float* chosen;
  int* ranks;
  int* topTokens;  // null with topCount 0
  float* topLogprobs;
  int topCount;  // k
  int vocabulary;
};

PERIGEE_KERNEL __launch_bounds__(kVocabularyThreads)
perigee_logprobs(const __grid_constant__ LogprobsParams p) {
  joinStream();
  __shared__ uint64_t scratch[kWarp];
  const int64_t row = blockIdx.x;
  const float* const logits = p.logits + row * p.vocabulary;
  const float chosen = logits[p.tokens[row]];
  const auto logitAt = [&](int token) { return logits[token]; };

  // 1. The largest, and the sum relative to it.
  const uint64_t best = bestBelow(~uint64_t{0}, p.vocabulary, logitAt, scratch);
  const float max = best == 0 ? -infinity() : logits[tokenOf(best)];
  uint64_t weight = 0;
  uint64_t larger = 0;
  for (int token = threadIdx.x; token < p.vocabulary; token += blockDim.x) {
    weight += weightOf(logits[token], max);
    larger += logits[token] > chosen ? 1 : 0;
  }
  const double sum = static_cast<double>(blockSum(weight, scratch));
  larger = blockSum(larger, scratch);
  const double normalizer =
      static_cast<double>(max) + log(sum / static_cast<double>(kWeightUnits));
  if (threadIdx.x == 0) {
    p.chosen[row] = static_cast<float>(static_cast<double>(chosen) - normalizer);
    p.ranks[row] = static_cast<int>(1 + larger);
  }

  // 2. The likeliest, one after the other. NaN counts as missing: zeros at the end.
  uint64_t ranking = best;
  for (int64_t place = row * p.topCount; place < (row + 1) * p.topCount; ++place) {
    const bool found = (ranking >> 32) != 0;
    if (threadIdx.x == 0) {
      const int token = found ? tokenOf(ranking) : 0;
      p.topTokens[place] = token;
      p.topLogprobs[place] =
          found ? static_cast<float>(static_cast<double>(logits[token]) - normalizer) : -infinity();
    }
    if (found) ranking = bestBelow(ranking, p.vocabulary, logitAt, scratch);
  }
}

}  // namespace perigee
