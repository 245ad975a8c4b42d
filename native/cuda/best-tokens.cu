// Argmax of each slice of a row, and clearing of the scratch that the next kernel accumulates into.
//
// Formula  best = ranking of the largest logit (vocabulary.h); among equal logits the lowest id
// Shapes   logits [R, V]; bests [R, slices]; cleared [R, words]
// Work     one block per row and slice
// Bound    memory: 4 V bytes per row, read once
// Checked  bench/gpu/smoke.mjs, sample and logprobs
#include "vocabulary.h"

namespace perigee {

struct BestTokensParams {
  uint64_t* bests;
  const float* logits;
  uint32_t* cleared;
  int tokens;  // V
  int words;   // words to clear per row
};

constexpr int kBestThreads = 512;
/// Resident blocks per SM: 48 KiB of logits in flight, more than the latency of memory needs.
constexpr int kBestBlocks = 3;

namespace {

/// Ranking (rankingOf in vocabulary.h) of the argmax of a slice. Comparing floats takes a third of
/// the time of comparing rankings, so each thread compares floats.
__device__ uint64_t bestOf(const float* logits, Slice slice, uint64_t* scratch) {
  float largest = -infinity();
  int found = -1;
  walk(logits, slice, [&](int token, float logit) {
    if (logit > largest) {
      largest = logit;
      found = token;
    }
  });
  uint64_t best = blockMax(found < 0 ? 0 : rankingOf(orderOf(largest), found), scratch);
  if (best != 0) return best;

  // All logits are -inf or NaN, so rankings decide.
  for (int token = slice.start + static_cast<int>(threadIdx.x); token < slice.end;
       token += kBestThreads) {
    best = max(best, rankingOf(orderOf(logits[token]), token));
  }
  return blockMax(best, scratch);
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kBestThreads, kBestBlocks)
perigee_best_tokens(const __grid_constant__ BestTokensParams p) {
  joinStream();
  __shared__ uint64_t scratch[kWarp];
  const int64_t row = blockIdx.x;
  const int part = static_cast<int>(blockIdx.y);
  const int parts = static_cast<int>(gridDim.y);
  const float* const logits = p.logits + row * p.tokens;
  const uint64_t best = bestOf(logits, sliceOf(p.tokens, part, parts), scratch);
  if (threadIdx.x == 0) p.bests[row * parts + part] = best;
  for (int word = part * kBestThreads + static_cast<int>(threadIdx.x); word < p.words;
       word += parts * kBestThreads) {
    p.cleared[row * p.words + word] = 0;
  }
}

}  // namespace perigee
