// Log-probabilities and ranks of given tokens, and the top-k tokens.
//
//    logits [V]   | block 0 | block 1 | ... |   sum of weights, larger logits, bins of the part
//                       \       |       /
//                   last block: totals -> logprob, rank; bins -> candidates -> top k
//
// Formula   chosen = logit - ln(sum of exp(logits)), rank = 1 + number of larger logits
// Shapes    logits [R, V]; bests [R, slices] of best-tokens.cu; tokens, chosen, ranks [R];
//           topTokens, topLogprobs [R, k]
// Work      Enough blocks per row to fill the GPU. Each computes over its part of the row the sum
//           of weights, the number of larger logits and, if k > 0, the tokens per bin
//           (likelihood-bins.h). The last block of a row adds the results, collects the tokens of
//           the first bins and sorts them.
// Bound     L2: 4 V bytes for the pass by many blocks; if k > 0 as many for a second pass by one
//           block
// Versions  one block per row, with a pass for each of the k tokens; now bins and many blocks per
//           row
// Checked   bench/gpu/smoke.mjs, logprobs; test/devices/cuda/ops/sample.test.ts
#include "likely-tokens.h"

namespace perigee {

struct LogprobsParams {
  const float* logits;
  const int* tokens;
  float* chosen;
  int* ranks;
  int* topTokens;  // null if topCount is 0
  float* topLogprobs;
  const uint64_t* bests;
  RowState* states;  // [R]; unused with one block per row
  int topCount;      // k
  int vocabulary;
  int slices;
};

namespace {

struct LogprobsMemory {
  uint64_t scratch[kWarp];
  Crossing found;
  Bins bins;
  Candidates candidates;
  bool last;
};

/// Sum of weights over a row or a part of it, and the number of logits larger than the chosen one.
struct Tally {
  uint64_t weight;
  uint64_t larger;
};

/// Tally of one slice; with `counts` also its tokens per bin.
__device__ Tally tally(LogprobsMemory& memory, const float* logits, Slice slice, float max,
                       float chosen, bool counts) {
  if (counts) memory.bins.clear();
  Tally mine = {0, 0};
  walk(logits, slice, [&](int, float logit) {
    mine.weight += weightOf(logit, max);
    mine.larger += logit > chosen ? 1 : 0;
    if (counts && logit == logit) atomicAdd(&memory.bins.counts[binOf(logit, max)], 1u);
  });
  // The barriers of the sums also cover the bins.
  return {blockSum(mine.weight, memory.scratch), blockSum(mine.larger, memory.scratch)};
}

/// Tally of the row: adds the results of its blocks.
__device__ Tally addUp(LogprobsMemory& memory, const RowState& state, int parts) {
  const int part = static_cast<int>(threadIdx.x);
  const uint64_t weight = part < parts ? __ldcg(&state.sums[part]) : 0;
  const uint64_t larger = part < parts ? __ldcg(&state.larger[part]) : 0;
  return {blockSum(weight, memory.scratch), blockSum(larger, memory.scratch)};
}

/// Collects a row's tokens from the bins that contain its `count` most likely. Returns false if
/// they are too many, or if they reach into the last bin, which has no resolution.
__device__ bool gather(LogprobsMemory& memory, const float* logits, int tokens, float max,
                       int count) {
  const auto countOf = [&](int bin) { return static_cast<uint64_t>(memory.bins.counts[bin]); };
  const auto reaches = [&](uint64_t sum) { return sum >= static_cast<uint64_t>(count); };
  const int last = findCrossing(kBins, countOf, reaches, memory.found, memory.scratch).index;
  if (last >= kLastBin) return false;
  Candidates& candidates = memory.candidates;
  if (threadIdx.x == 0) candidates.count = 0;
  __syncthreads();
  walk(logits, {0, tokens}, [&](int token, float logit) {
    if (logit == logit && binOf(logit, max) <= last) candidates.add(orderOf(logit), token);
  });
  __syncthreads();
  return candidates.fit();
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kVocabularyThreads, 1)
perigee_logprobs(const __grid_constant__ LogprobsParams p) {
  joinStream();
  __shared__ LogprobsMemory memory;
  uint64_t* const scratch = memory.scratch;
  const int64_t row = blockIdx.x;
  const int part = static_cast<int>(blockIdx.y);
  const int parts = static_cast<int>(gridDim.y);
  const float* const logits = p.logits + row * p.vocabulary;
  const float chosen = logits[p.tokens[row]];

  // 1. The largest logit, and sums relative to it.
  const int slice = static_cast<int>(threadIdx.x);
  const uint64_t best = blockMax(slice < p.slices ? p.bests[row * p.slices + slice] : 0, scratch);
  const float max = best == 0 ? -infinity() : floatOf(static_cast<uint32_t>(best >> 32));
  const bool counts = p.topCount > 0;
  Tally all = tally(memory, logits, sliceOf(p.vocabulary, part, parts), max, chosen, counts);
  if (parts > 1) {
    RowState& state = p.states[row];
    if (threadIdx.x == 0) {
      state.sums[part] = all.weight;
      state.larger[part] = all.larger;
    }
    if (counts) addBins(state, memory.bins);
    if (!arrivesLast(state, parts, memory.last)) return;
    all = addUp(memory, state, parts);
    if (counts) loadBins(memory.bins, state);
  }
  const double sum = static_cast<double>(all.weight) / static_cast<double>(kWeightUnits);
  const double normalizer = static_cast<double>(max) + log(sum);
  if (threadIdx.x == 0) {
    p.chosen[row] = static_cast<float>(static_cast<double>(chosen) - normalizer);
    p.ranks[row] = static_cast<int>(1 + all.larger);
  }
  if (!counts) return;

  // 2. The top k, one after another. NaN counts as missing: zeros at the end.
  const bool few = gather(memory, logits, p.vocabulary, max, p.topCount);
  const auto nextBelow = [&](uint64_t below) {
    if (!few) return bestBelow(below, logits, {0, p.vocabulary}, scratch);
    uint64_t next = 0;
    memory.candidates.each([&](uint32_t order, int token) {
      const uint64_t ranking = rankingOf(order, token);
      if (ranking < below && ranking > next) next = ranking;
    });
    return blockMax(next, scratch);
  };
  uint64_t ranking = best;
  for (int64_t place = row * p.topCount; place < (row + 1) * p.topCount; ++place) {
    const bool found = (ranking >> 32) != 0;
    if (threadIdx.x == 0) {
      const int token = found ? tokenOf(ranking) : 0;
      p.topTokens[place] = token;
      p.topLogprobs[place] =
          found ? static_cast<float>(static_cast<double>(logits[token]) - normalizer) : -infinity();
    }
    if (found) ranking = nextBelow(ranking);
  }
}

}  // namespace perigee
