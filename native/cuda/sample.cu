// Token sampling, one token per row: temperature, top-k, top-p and min-p.
//
//    logits [V]  | block 0 | block 1 | ... |      input: the row's maximum (best_tokens)
//    filtered:     bins    + bins    + ...  -> last block: threshold bin -> race of better bins
//                                              and candidates -> bound -> race of kept candidates
//    unfiltered:   race    | race    | ...  -> last block: the best winner
//
// Formula   temperature 0: argmax, the first of equal logits. Else scaled = logit / temperature; a
//           token is kept if scaled >= max + ln(min_p), if scaled >= the k-th largest, and if it is
//           in the smallest set of most likely tokens whose probability reaches top_p (the
//           nucleus). The result is the kept token with the largest scaled + noise(seed, position,
//           token), of equals the lowest id (gumbel-race.h)
// Shapes    logits [R, V]; bests [R, slices] of best-tokens.cu; seeds [R, 2]; the other inputs and
//           the output [R]
// Work      Enough blocks per row to fill the GPU, each with a part of the row. With top_k or top_p
//           they fill bins (likelihood-bins.h), else they race the tokens of their part. The last
//           block of a row ends it: with top_k or top_p it finds the threshold among the few tokens
//           of one bin, in another pass over the row
// Bound     L2: 4 V bytes for the pass by many blocks, and as many for the pass by one block.
//           Unfiltered: 20 integer instructions a token for its random number where it can win
// Versions  one block per row, with four radix passes each for top_k and for top_p: 1.5 ms at batch
//           1, 3.6 ms at batch 256 with both; then bins instead of radix digits and many blocks per
//           row, and a running sum of weights that one random number inverts; now a race, so that
//           drafters can use the same noise (SP22)
// Checked   bench/gpu/smoke.mjs, sample; test/devices/cuda/ops/sample.test.ts
#include "gumbel-race.h"

namespace perigee {

struct SampleParams {
  int* out;
  const float* logits;
  const float* temperature;
  const int* topK;    // 0: off
  const float* topP;  // 1: off
  const float* minP;  // 0: off
  const uint32_t* seeds;
  const int* positions;
  const uint64_t* bests;
  RowState* states;  // [R]; unused with one block per row
  int tokens;        // V
  int slices;
};

namespace {

struct SampleMemory {
  BoundMemory bound;
  bool last;
};

/// Races the tokens in better bins. Collects the candidates: the tokens in the bins of the
/// thresholds.
__device__ void gather(Candidates& candidates, const ScaledRow& row, const Filter& filter,
                       const ThresholdBins& thresholds, Racer& racer) {
  if (threadIdx.x == 0) candidates.count = 0;
  __syncthreads();
  walkFours(row.logits, {0, row.tokens}, [&](int first, const float (&logits)[4]) {
    float better[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = row.scaled(logits[i]);
      const uint32_t order = orderOf(value);
      const int bin = binOf(value, row.max);
      const bool isOpen = order >= filter.least;
      better[i] = isOpen && bin < thresholds.first ? logits[i] : notANumber();
      if (isOpen && bin >= thresholds.first && bin <= thresholds.last) {
        candidates.add(order, first + i);
      }
    }
    racer.enter(first, better, [](int, float scaled) { return scaled == scaled; });
  });
  __syncthreads();
}

/// Races the tokens whose ranking is at least `bound`.
__device__ void raceFrom(uint64_t bound, const ScaledRow& row, Slice slice, Racer& racer) {
  walkFours(row.logits, slice, [&](int first, const float (&logits)[4]) {
    racer.enter(first, logits, [&](int place, float scaled) {
      return rankingOf(orderOf(scaled), first + place) >= bound;
    });
  });
}

/// Races the tokens that top_k and top_p keep. Needs the row's complete bins.
__device__ void raceSelected(BoundMemory& memory, const ScaledRow& row, Filter filter,
                             Racer& racer) {
  const ThresholdBins thresholds = findThresholdBins(memory, filter);
  Candidates& candidates = memory.candidates;
  gather(candidates, row, filter, thresholds, racer);
  if (thresholds.first == kBins) return;
  if (candidates.fit()) {
    const auto each = [&](const auto& visit) { candidates.each(visit); };
    const uint64_t bound = findBound(memory, row, filter, thresholds, each);
    candidates.each([&](uint32_t order, int token) {
      if (rankingOf(order, token) >= bound) racer.enter(token, floatOf(order));
    });
    return;
  }

  // Thousands of nearly equal logits: the candidates overflow, so every bisection step passes over
  // the whole row.
  const auto each = [&](const auto& visit) {
    walk(row.logits, {0, row.tokens},
         [&](int token, float logit) { visit(orderOf(row.scaled(logit)), token); });
  };
  const uint64_t bound = findBound(memory, row, filter, {0, kLastBin, 0, 0, 0}, each);
  raceFrom(bound, row, {0, row.tokens}, racer);
}

/// The best of the winners that the parts of a row left.
__device__ Winner bestOfParts(const RowState& state, int parts, uint64_t* scratch) {
  const int part = static_cast<int>(threadIdx.x);
  Winner mine = {0, 0};
  if (part < parts) {
    mine = {__ldcg(&state.sums[part]), static_cast<uint32_t>(__ldcg(&state.larger[part]))};
  }
  // One call for all threads: in two branches the lanes of a warp would wait for each other.
  return Racer::first(mine, scratch);
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kVocabularyThreads, 1)
perigee_sample(const __grid_constant__ SampleParams p) {
  joinStream();
  __shared__ SampleMemory memory;
  BoundMemory& shared = memory.bound;
  const int64_t index = blockIdx.x;
  const int part = static_cast<int>(blockIdx.y);
  const int parts = static_cast<int>(gridDim.y);

  // 1. The largest logit. If it is infinite there is no distribution, and the row is sampled
  // greedily.
  const float temperature = p.temperature[index];
  const int slice = static_cast<int>(threadIdx.x);
  const uint64_t mine = slice < p.slices ? p.bests[index * p.slices + slice] : 0;
  const uint64_t best = blockMax(mine, shared.scratch);
  ScaledRow row = {p.logits + index * p.tokens, p.tokens, temperature, 0.0f};
  const bool greedy = temperature == 0.0f;
  if (!greedy && best != 0) row.max = row.scaled(floatOf(static_cast<uint32_t>(best >> 32)));
  if (greedy || best == 0 || !(fabsf(row.max) < infinity())) {
    if (part == 0 && threadIdx.x == 0) p.out[index] = best == 0 ? 0 : tokenOf(best);
    return;
  }

  // 2. The filters.
  const int topK = p.topK[index];
  const float minP = p.minP[index];
  Filter filter = {orderOf(-infinity()), topK > 0 && topK < p.tokens ? topK : uint64_t{0},
                   p.topP[index]};
  if (minP > 0.0f) {
    const double bound = static_cast<double>(row.max) + fmin(log(static_cast<double>(minP)), 0.0);
    filter.least = max(filter.least, orderOf(__double2float_ru(bound)));
  }
  const bool selects = filter.ranks() || filter.weighs();
  const NoiseSource noise = {p.seeds[2 * index], p.seeds[2 * index + 1],
                             static_cast<uint32_t>(p.positions[index])};

  // 3. Each block's part of the row; the last block of the row continues.
  const Slice ours = sliceOf(p.tokens, part, parts);
  RowState& state = p.states[parts > 1 ? index : 0];
  Winner winner = {0, 0};
  if (selects) {
    fillBins(shared.bins, row, ours, filter);
    if (parts > 1) addBins(state, shared.bins);
  } else {
    Racer racer(row, noise, tokenOf(best));
    raceFrom(static_cast<uint64_t>(filter.least) << 32, row, ours, racer);
    winner = racer.finish(shared.scratch);
    if (parts > 1 && threadIdx.x == 0) {
      state.sums[part] = winner.order;
      state.larger[part] = winner.place;
    }
  }
  if (parts > 1) {
    if (!arrivesLast(state, parts, memory.last)) return;
    if (selects) loadBins(shared.bins, state);
  }

  // 4. The row's winner.
  if (selects) {
    Racer racer(row, noise);
    raceSelected(shared, row, filter, racer);
    winner = racer.finish(shared.scratch);
  } else if (parts > 1) {
    winner = bestOfParts(state, parts, shared.scratch);
  }
  if (threadIdx.x == 0) p.out[index] = tokenOf(winner.place);
}

}  // namespace perigee
