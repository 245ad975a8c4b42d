// Token sampling, one token per row: temperature, top-k, top-p and min-p.
//
//    logits [V]  | block 0 | block 1 | ... |      input: the row's maximum (best_tokens)
//    filtered:     bins    + bins    + ...  -> last block: threshold bin -> candidates -> bound
//                                                          -> weigh kept tokens by tile -> token
//    unfiltered:   weight  + weight  + ...  -> last block: part with the target -> tile -> token
//
// Formula   temperature 0: argmax, the first of equal logits. Else scaled = logit / temperature; a
//           token is kept if scaled >= max + ln(min_p), if scaled >= the k-th largest, and if it is
//           in the smallest set of most likely tokens whose probability reaches top_p (the
//           nucleus). The result is the first kept token, by rising id, at which the running sum of
//           exp(scaled - max) exceeds uniformAt(seed, position) * total
// Shapes    logits [R, V]; bests [R, slices] of best-tokens.cu; seeds [R, 2]; the other inputs and
//           the output [R]
// Work      Enough blocks per row to fill the GPU, each with a part of the row. With top_k or top_p
//           they fill bins (likelihood-bins.h), else they sum the weights of their part. The last
//           block of a row finds the threshold among the few tokens of one bin and samples: with
//           top_k or top_p by another pass over the row, else by a pass over one part
// Bound     L2: 4 V bytes for the pass by many blocks, and as many for the pass by one block
// Versions  one block per row, with four radix passes each for top_k and for top_p: 1.5 ms at batch
//           1, 3.6 ms at batch 256 with both; now bins instead of radix digits and many blocks per
//           row
// Checked   bench/gpu/smoke.mjs, sample; test/devices/cuda/ops/sample.test.ts
#include "philox.h"
#include "sample-bound.h"

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

constexpr int kTiles = 256;

struct SampleMemory {
  BoundMemory bound;
  uint32_t tileLow[kTiles];
  uint32_t tileHigh[kTiles];
  bool last;

  __device__ uint64_t tile(int index) const {
    return (static_cast<uint64_t>(tileHigh[index]) << 32) | tileLow[index];
  }
};

/// Tokens per tile, for at most kTiles tiles per slice. For V <= 2^19 a tile has at most
/// kAmountsMax tokens, as findCrossing needs.
__device__ int tileTokensOf(Slice slice) {
  return static_cast<int>(padTo((slice.end - slice.start + kTiles - 1) / kTiles, kWarp));
}

__device__ int tilesOf(Slice slice) {
  const int width = tileTokensOf(slice);
  return width == 0 ? 0 : (slice.end - slice.start + width - 1) / width;
}

/// Sums the weights of the kept tokens in each tile of a slice, one warp per tile. A token is kept
/// if `keeps(order, value, token)`.
template <typename Keeps>
__device__ void weighTiles(SampleMemory& memory, const ScaledRow& row, Slice slice,
                           const Keeps& keeps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int width = tileTokensOf(slice);
  const int tiles = tilesOf(slice);
  for (int tile = threadIdx.x / kWarp; tile < tiles; tile += kVocabularyThreads / kWarp) {
    const int start = slice.start + tile * width;
    uint64_t weight = 0;
    walkTogether(row.logits, {start, min(start + width, slice.end)}, lane, kWarp,
                 [&](int token, float logit) {
                   const float value = row.scaled(logit);
                   if (keeps(orderOf(value), value, token)) weight += weightOf(value, row.max);
                 });
    for (int step = kWarp / 2; step > 0; step /= 2) {
      weight += __shfl_xor_sync(0xffffffffu, weight, step);
    }
    if (lane == 0) {
      memory.tileLow[tile] = static_cast<uint32_t>(weight);
      memory.tileHigh[tile] = static_cast<uint32_t>(weight >> 32);
    }
  }
  __syncthreads();
}

/// Sums the weights of the tokens in better bins by tile. Collects the candidates: the tokens in
/// the bins of the thresholds.
__device__ void gather(SampleMemory& memory, const ScaledRow& row, const Filter& filter,
                       const ThresholdBins& thresholds) {
  Candidates& candidates = memory.bound.candidates;
  if (threadIdx.x == 0) candidates.count = 0;
  __syncthreads();
  weighTiles(memory, row, {0, row.tokens}, [&](uint32_t order, float value, int token) {
    if (order < filter.least) return false;
    const int bin = binOf(value, row.max);
    if (bin >= thresholds.first && bin <= thresholds.last) candidates.add(order, token);
    return bin < thresholds.first;
  });
}

/// Adds the weights of the kept candidates to their tiles.
__device__ void addCandidates(SampleMemory& memory, const ScaledRow& row, uint64_t bound) {
  const int width = tileTokensOf({0, row.tokens});
  memory.bound.candidates.each([&](uint32_t order, int token) {
    if (rankingOf(order, token) < bound) return;
    const uint64_t weight = weightOf(floatOf(order), row.max);
    const uint32_t word = static_cast<uint32_t>(weight);
    const uint32_t before = atomicAdd(&memory.tileLow[token / width], word);
    const uint32_t carry = before + word < word ? 1u : 0u;
    atomicAdd(&memory.tileHigh[token / width], static_cast<uint32_t>(weight >> 32) + carry);
  });
  __syncthreads();
}

/// The smallest ranking that top_k and top_p keep. Also computes the tiles' weights of the kept
/// tokens. Needs the row's complete bins.
__device__ uint64_t select(SampleMemory& memory, const ScaledRow& row, Filter filter) {
  const ThresholdBins thresholds = findThresholdBins(memory.bound, filter);
  gather(memory, row, filter, thresholds);
  const uint64_t all = static_cast<uint64_t>(filter.least) << 32;
  if (thresholds.first == kBins) return all;
  const Candidates& candidates = memory.bound.candidates;
  if (candidates.fit()) {
    const auto each = [&](const auto& visit) { candidates.each(visit); };
    const uint64_t bound = findBound(memory.bound, row, filter, thresholds, each);
    addCandidates(memory, row, bound);
    return bound;
  }

  // Thousands of nearly equal logits: the candidates overflow, so every bisection step passes over
  // the whole row.
  const auto each = [&](const auto& visit) {
    walk(row.logits, {0, row.tokens},
         [&](int token, float logit) { visit(orderOf(row.scaled(logit)), token); });
  };
  const uint64_t bound = findBound(memory.bound, row, filter, {0, kLastBin, 0, 0, 0}, each);
  weighTiles(memory, row, {0, row.tokens}, [&](uint32_t order, float, int token) {
    return rankingOf(order, token) >= bound;
  });
  return bound;
}

/// Where the sampled token lies: a slice, the weight before it, and the weight of the whole row.
struct Place {
  Slice slice;
  uint64_t before;
  uint64_t total;
};

/// The first token at which the running sum exceeds uniform * total. The tiles of the place's slice
/// must hold their weights.
__device__ int draw(SampleMemory& memory, const ScaledRow& row, uint64_t bound, const Place& place,
                    float uniform) {
  BoundMemory& shared = memory.bound;
  const double target = static_cast<double>(uniform) * static_cast<double>(place.total);
  uint64_t before = place.before;
  const auto exceeds = [&](uint64_t sum) { return static_cast<double>(before + sum) > target; };
  const auto tileWeight = [&](int tile) { return memory.tile(tile); };
  const Crossing tile =
      findCrossing(tilesOf(place.slice), tileWeight, exceeds, shared.found, shared.scratch);

  before += tile.before;
  const int width = tileTokensOf(place.slice);
  const int start = place.slice.start + tile.index * width;
  const auto tokenWeight = [&](int index) {
    const float value = row.scaled(row.logits[start + index]);
    const bool kept = rankingOf(orderOf(value), start + index) >= bound;
    return kept ? weightOf(value, row.max) : uint64_t{0};
  };
  const int count = min(width, place.slice.end - start);
  return start + findCrossing(count, tokenWeight, exceeds, shared.found, shared.scratch).index;
}

/// Locates the part of a row in which the running sum crosses the target, from the weights of all
/// parts.
__device__ Place findPart(SampleMemory& memory, const ScaledRow& row, const RowState& state,
                          int parts, float uniform) {
  BoundMemory& shared = memory.bound;
  const auto partWeight = [&](int part) { return __ldcg(&state.sums[part]); };
  const int index = static_cast<int>(threadIdx.x);
  const uint64_t total = blockSum(index < parts ? partWeight(index) : 0, shared.scratch);
  const double target = static_cast<double>(uniform) * static_cast<double>(total);
  const auto exceeds = [&](uint64_t sum) { return static_cast<double>(sum) > target; };
  const Crossing part = findCrossing(parts, partWeight, exceeds, shared.found, shared.scratch);
  return {sliceOf(row.tokens, part.index, parts), part.before, total};
}

/// The weight of a slice, from its tiles.
__device__ uint64_t weightOfTiles(SampleMemory& memory, Slice slice) {
  const int index = static_cast<int>(threadIdx.x);
  return blockSum(index < tilesOf(slice) ? memory.tile(index) : 0, memory.bound.scratch);
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
  const uint64_t all = static_cast<uint64_t>(filter.least) << 32;
  const auto isKept = [&](uint32_t order, float, int) { return order >= filter.least; };

  // 3. Each block's part of the row; the last block of the row continues.
  const Slice ours = sliceOf(p.tokens, part, parts);
  RowState& state = p.states[parts > 1 ? index : 0];
  if (selects) {
    fillBins(shared.bins, row, ours, filter);
    if (parts > 1) addBins(state, shared.bins);
  } else {
    weighTiles(memory, row, ours, isKept);
    const uint64_t weight = weightOfTiles(memory, ours);
    if (parts > 1 && threadIdx.x == 0) state.sums[part] = weight;
  }
  if (parts > 1) {
    if (!arrivesLast(state, parts, memory.last)) return;
    if (selects) loadBins(shared.bins, state);
  }

  // 4. Sampling.
  const float uniform = uniformAt(p.seeds[2 * index], p.seeds[2 * index + 1],
                                  static_cast<uint32_t>(p.positions[index]));
  uint64_t bound = all;
  Place place = {{0, p.tokens}, 0, 0};
  if (selects) {
    bound = select(memory, row, filter);
  } else if (parts > 1) {
    place = findPart(memory, row, state, parts, uniform);
    weighTiles(memory, row, place.slice, isKept);
  }
  if (selects || parts == 1) place.total = weightOfTiles(memory, place.slice);
  const int token = draw(memory, row, bound, place, uniform);
  if (threadIdx.x == 0) p.out[index] = token;
}

}  // namespace perigee
