// Log-probabilities of chosen tokens, their ranks, and the likeliest tokens.
//
// Formula  chosen = logit - ln(sum of exp(logits)), rank = 1 + how many logits are larger
// Shapes   logits [R, V]; bests [R, slices] of best-tokens.cu; tokens, chosen, ranks [R];
//          topTokens, topLogprobs [R, k]
// Work     so many blocks per row that the chip is full, each with its part of the row: weights,
//          larger logits, and for k > 0 how many tokens each bin has (likelihood-bins.h). The last
//          one to be done adds them up, collects the tokens of the first bins and ranks these
// Bound    L2: 4 V bytes for a walk of many blocks, for k > 0 as many for one of one block
// Ladder   a block per row, a walk for each of the k; bins, many blocks per row
// Checked  bench/gpu/smoke.mjs, logprobs; test/devices/cuda/ops/sample.test.ts
#include "likely-tokens.h"

namespace perigee {

struct LogprobsParams {
  const float* logits;
  const int* tokens;
  float* chosen;
  int* ranks;
  int* topTokens;  // null with topCount 0
  float* topLogprobs;
  const uint64_t* bests;
  RowState* states;  // [R]; not used with one block per row
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

/// The weight of a row or a part of it, and how many logits are larger than the chosen one.
struct Tally {
  uint64_t weight;
  uint64_t larger;
};

/// One slice's; with `counts` its tokens are counted by bin, too.
__device__ Tally tally(LogprobsMemory& memory, const float* logits, Slice slice, float max,
                       float chosen, bool counts) {
  if (counts) memory.bins.clear();
  Tally mine = {0, 0};
  walk(logits, slice, [&](int, float logit) {
    mine.weight += weightOf(logit, max);
    mine.larger += logit > chosen ? 1 : 0;
    if (counts && logit == logit) atomicAdd(&memory.bins.counts[binOf(logit, max)], 1u);
  });
  // The sums' barriers are the bins', too.
  return {blockSum(mine.weight, memory.scratch), blockSum(mine.larger, memory.scratch)};
}

/// The row's, of what its blocks left.
__device__ Tally addUp(LogprobsMemory& memory, const RowState& state, int parts) {
  const int part = static_cast<int>(threadIdx.x);
  const uint64_t weight = part < parts ? __ldcg(&state.sums[part]) : 0;
  const uint64_t larger = part < parts ? __ldcg(&state.larger[part]) : 0;
  return {blockSum(weight, memory.scratch), blockSum(larger, memory.scratch)};
}

/// Collects a row's tokens of the bins that its `count` likeliest are in. False when these are too
/// many, or so unlikely that bins do not tell them apart.
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

  // 1. The largest, and sums relative to it.
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

  // 2. The likeliest, one after the other. NaN counts as missing: zeros at the end.
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
