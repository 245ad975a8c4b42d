// One token per row.
//
// Formula  temperature 0: the first largest logit. Else scaled = logit / temperature, kept where
//          scaled >= max + ln(min_p), >= the k-th largest, and inside the smallest likeliest set
//          that reaches top_p; then the first token by rising id at which the running sum of
//          exp(scaled - max) exceeds uniformAt(seed, position) * total
// Shapes   logits [R, V]; the others [R], seeds [R, 2]
// Work     a block per row walks over it: once for the largest, four times for top_k and four for
//          top_p (a digit of 8 bits of a float's order each), twice for the draw
// Bound    L2: 4 V bytes a walk; one multiprocessor's share of it where rows are few
// Checked  bench/gpu/smoke.mjs, sample
#include "philox.h"
#include "vocabulary.h"

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
  int tokens;  // V
};

namespace {

constexpr int kDigits = 256;
constexpr int kTilesMax = 256;

/// What is kept: orders above `order`, and the first `ties` tokens (by id) of that order.
struct Kept {
  uint32_t order;
  uint64_t ties;
};

struct SampleMemory {
  uint64_t scratch[kWarp];
  uint64_t bins[kDigits];
  uint64_t tileWeights[kTilesMax];  // of what is surely kept
  int tileTies[kTilesMax];
  uint32_t prefix;
  uint64_t above;  // weight, or count, of all that is larger than the prefix
  uint64_t ties;
  int tile;
  int tiesBefore;
  uint64_t before;
  uint64_t total;
};

struct Row {
  const float* logits;
  int tokens;
  float temperature;
  float max;  // largest scaled logit

  __device__ float scaled(int token) const { return __fdiv_rn(logits[token], temperature); }
};

/// Walks down the digits of an order: `amountOf(order, value)` of every token is summed up by
/// digit, and `stops(above, amount)` says in which digit the wanted order lies, `above` being the
/// sum of all larger ones. Leaves the order in `memory.prefix` and the sum above it in
/// `memory.above`.
template <typename AmountOf, typename Stops>
__device__ void findOrder(SampleMemory& memory, const Row& row, const AmountOf& amountOf,
                          const Stops& stops) {
  if (threadIdx.x == 0) {
    memory.prefix = 0;
    memory.above = 0;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += blockDim.x) memory.bins[i] = 0;
    __syncthreads();
    const uint32_t prefix = memory.prefix;
    for (int token = threadIdx.x; token < row.tokens; token += blockDim.x) {
      const float value = row.scaled(token);
      const uint32_t order = orderOf(value);
      // Shifted in two steps: by 32 at once would not be defined.
      if ((order >> shift) >> 8 != (prefix >> shift) >> 8) continue;
      const uint64_t amount = amountOf(order, value);
      if (amount > 0) atomicAdd(&memory.bins[(order >> shift) % kDigits], amount);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t above = memory.above;
      int digit = kDigits - 1;
      while (digit > 0 && !stops(above, memory.bins[digit])) above += memory.bins[digit--];
      memory.above = above;
      memory.prefix = prefix | (static_cast<uint32_t>(digit) << shift);
    }
    __syncthreads();
  }
}

/// The k-th largest order.
__device__ uint32_t kthOrder(SampleMemory& memory, const Row& row, uint64_t k) {
  findOrder(
      memory, row, [](uint32_t, float) { return uint64_t{1}; },
      [&](uint64_t above, uint64_t count) { return above + count >= k; });
  return memory.prefix;
}

/// The smallest set of the likeliest tokens, of at least order `least`, that reaches `topP`.
__device__ Kept nucleusOf(SampleMemory& memory, const Row& row, uint32_t least, float topP) {
  uint64_t mine = 0;
  for (int token = threadIdx.x; token < row.tokens; token += blockDim.x) {
    const float value = row.scaled(token);
    if (orderOf(value) >= least) mine += weightOf(value, row.max);
  }
  const double total = static_cast<double>(blockSum(mine, memory.scratch));
  const double target = static_cast<double>(topP) * total;
  const auto reaches = [&](uint64_t weight) { return static_cast<double>(weight) >= target; };

  findOrder(
      memory, row,
      [&](uint32_t order, float value) {
        return order >= least ? weightOf(value, row.max) : uint64_t{0};
      },
      [&](uint64_t above, uint64_t weight) { return weight > 0 && reaches(above + weight); });

  // Tokens of one order have one weight: a division says how many of them it takes.
  if (threadIdx.x == 0) {
    const uint64_t weight = weightOf(floatOf(memory.prefix), row.max);
    const uint64_t above = memory.above;
    uint64_t ties = 1;
    if (weight > 0) {
      const double missing = (target - static_cast<double>(above)) / static_cast<double>(weight);
      ties = missing > 2.0 ? static_cast<uint64_t>(missing) - 1 : 1;
      while (!reaches(above + ties * weight) && ties < static_cast<uint64_t>(row.tokens)) ++ties;
    }
    memory.ties = ties;
  }
  __syncthreads();
  return {memory.prefix, memory.ties};
}

/// Weights of tiles of the row: what is surely kept, and how many ties there are.
__device__ void weighTiles(SampleMemory& memory, const Row& row, const Kept& kept, int tileTokens) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int tile = threadIdx.x / kWarp; tile * tileTokens < row.tokens; tile += kVocabularyWarps) {
    const int end = min((tile + 1) * tileTokens, row.tokens);
    uint64_t weight = 0;
    int ties = 0;
    for (int token = tile * tileTokens + lane; token < end; token += kWarp) {
      const float value = row.scaled(token);
      const uint32_t order = orderOf(value);
      if (order > kept.order) weight += weightOf(value, row.max);
      ties += order == kept.order ? 1 : 0;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      weight += __shfl_xor_sync(0xffffffffu, weight, step);
      ties += __shfl_xor_sync(0xffffffffu, ties, step);
    }
    if (lane == 0) {
      memory.tileWeights[tile] = weight;
      memory.tileTies[tile] = ties;
    }
  }
  __syncthreads();
}

/// Finds the tile in which the running sum exceeds uniform * total.
__device__ void findTile(SampleMemory& memory, const Row& row, const Kept& kept, int tileTokens,
                         float uniform) {
  if (threadIdx.x == 0) {
    const int tiles = (row.tokens + tileTokens - 1) / tileTokens;
    const uint64_t tieWeight = weightOf(floatOf(kept.order), row.max);
    // Of `ties` ties behind `before` others, so many are kept.
    const auto keptTies = [&](uint64_t before, uint64_t ties) {
      const uint64_t room = before < kept.ties ? kept.ties - before : 0;
      return ties < room ? ties : room;
    };
    uint64_t total = 0;
    uint64_t ties = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const uint64_t here = static_cast<uint64_t>(memory.tileTies[tile]);
      total += memory.tileWeights[tile] + tieWeight * keptTies(ties, here);
      ties += here;
    }
    const double target = static_cast<double>(uniform) * static_cast<double>(total);
    uint64_t sum = 0;
    ties = 0;
    int tile = 0;
    for (; tile + 1 < tiles; ++tile) {
      const uint64_t here = static_cast<uint64_t>(memory.tileTies[tile]);
      const uint64_t weight = memory.tileWeights[tile] + tieWeight * keptTies(ties, here);
      if (static_cast<double>(sum + weight) > target) break;
      sum += weight;
      ties += here;
    }
    memory.tile = tile;
    memory.before = sum;
    memory.tiesBefore = static_cast<int>(ties);
    memory.total = total;
  }
  __syncthreads();
}

/// One warp: the first token of the tile at which the running sum exceeds uniform * total.
__device__ int findToken(const SampleMemory& memory, const Row& row, const Kept& kept,
                         int tileTokens, float uniform) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const double target = static_cast<double>(uniform) * static_cast<double>(memory.total);
  const int end = min((memory.tile + 1) * tileTokens, row.tokens);
  uint64_t sum = memory.before;
  uint64_t ties = static_cast<uint64_t>(memory.tiesBefore);
  int last = 0;
  for (int start = memory.tile * tileTokens; start < end; start += kWarp) {
    const int token = start + lane;
    const float value = token < end ? row.scaled(token) : -infinity();
    const uint32_t order = token < end ? orderOf(value) : 0;
    const bool tie = token < end && order == kept.order;
    const uint32_t tied = __ballot_sync(0xffffffffu, tie);
    const uint64_t place = ties + __popc(tied & ((1u << lane) - 1u));
    const bool keeps = token < end && (order > kept.order || (tie && place < kept.ties));
    const uint64_t weight = keeps ? weightOf(value, row.max) : 0;

    uint64_t running = weight;
    for (int step = 1; step < kWarp; step *= 2) {
      const uint64_t other = __shfl_up_sync(0xffffffffu, running, step);
      running += lane >= step ? other : 0;
    }
    const bool exceeds = weight > 0 && static_cast<double>(sum + running) > target;
    const uint32_t found = __ballot_sync(0xffffffffu, exceeds);
    if (found != 0) return start + __ffs(static_cast<int>(found)) - 1;
    const uint32_t any = __ballot_sync(0xffffffffu, weight > 0);
    if (any != 0) last = start + kWarp - 1 - __clz(static_cast<int>(any));
    sum += __shfl_sync(0xffffffffu, running, kWarp - 1);
    ties += __popc(tied);
  }
  return last;
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kVocabularyThreads, 1)
perigee_sample(const __grid_constant__ SampleParams p) {
  joinStream();
  __shared__ SampleMemory memory;
  const int64_t index = blockIdx.x;
  Row row = {p.logits + index * p.tokens, p.tokens, p.temperature[index], 0.0f};

  // 1. The largest. Where it is infinite a distribution has no meaning.
  const auto logitAt = [&](int token) { return row.logits[token]; };
  const uint64_t best = bestBelow(~uint64_t{0}, row.tokens, logitAt, memory.scratch);
  const int likeliest = best == 0 ? 0 : tokenOf(best);
  const bool greedy = row.temperature == 0.0f;
  row.max = greedy ? 0.0f : row.scaled(likeliest);
  if (greedy || !(fabsf(row.max) < infinity())) {
    if (threadIdx.x == 0) p.out[index] = likeliest;
    return;
  }

  // 2. min_p and top_k are thresholds.
  uint32_t least = orderOf(-infinity());
  const float minP = p.minP[index];
  if (minP > 0.0f) {
    const double bound = static_cast<double>(row.max) + fmin(log(static_cast<double>(minP)), 0.0);
    least = max(least, orderOf(__double2float_ru(bound)));
  }
  const int topK = p.topK[index];
  if (topK > 0 && topK < row.tokens) {
    least = max(least, kthOrder(memory, row, static_cast<uint64_t>(topK)));
  }

  // 3. top_p among what they keep.
  Kept kept = {least, ~uint64_t{0}};
  const float topP = p.topP[index];
  if (topP < 1.0f) kept = nucleusOf(memory, row, least, topP);

  // 4. The draw.
  const float uniform = uniformAt(p.seeds[2 * index], p.seeds[2 * index + 1],
                                  static_cast<uint32_t>(p.positions[index]));
  const int tileTokens =
      static_cast<int>(padTo((row.tokens + kTilesMax - 1) / kTilesMax, kWarp));
  weighTiles(memory, row, kept, tileTokens);
  findTile(memory, row, kept, tileTokens, uniform);
  if (threadIdx.x >= kWarp) return;
  const int token = findToken(memory, row, kept, tileTokens, uniform);
  if (threadIdx.x == 0) p.out[index] = token;
}

}  // namespace perigee
