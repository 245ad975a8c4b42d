// How far the likeliest tokens of a drafter's row are behind the winner of the race that sampling
// runs, with the same noise.
//
// Formula  scaled = logprob / temperature; key = scaled + noise(seed, position + ahead, token);
//          logprob = f32(key - the row's best key), -inf for what the filters drop: scaled below
//          the first one's + ln(min_p), places from top_k on, and those before which the sum of
//          exp(scaled - first) reaches top_p of all. Rows of temperature 0 stay as they are
// Shapes   topTokens, topLogprobs [S * before, K], best first; seeds [S, 2]; the others [S]
// Work     one block per row, a thread per candidate
// Bound    latency: at most 256 candidates a row
// Checked  test/contracts/device-ops/races.ts, raceCandidates
// Source   Daliri et al. 2024, "Coupling without communication and drafter-invariant speculative
//          decoding"
#include "gumbel-race.h"

namespace perigee {

struct RaceCandidatesParams {
  const int* topTokens;
  float* topLogprobs;
  const int* tokenMap;  // null: a token stands for itself
  const float* temperature;
  const int* topK;
  const float* topP;
  const float* minP;
  const uint32_t* seeds;
  const int* positions;
  int before;
  int topCount;  // K
  int ahead;
};

/// The same as in src/devices/drafter-counts.ts.
constexpr int kRaceCandidatesMax = 256;

namespace {

/// Whether top_p keeps this thread's candidate; `weights` are those of all.
__device__ bool isInNucleus(const float* weights, int count, float topP) {
  double before = 0.0;
  double total = 0.0;
  for (int i = 0; i < count; ++i) {
    if (i == static_cast<int>(threadIdx.x)) before = total;
    total += static_cast<double>(weights[i]);
  }
  return threadIdx.x == 0 || before < static_cast<double>(topP) * total;
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kRaceCandidatesMax)
perigee_race_candidates(const __grid_constant__ RaceCandidatesParams p) {
  joinStream();
  __shared__ uint64_t scratch[kWarp];
  __shared__ float weights[kRaceCandidatesMax];
  const int64_t row = blockIdx.x;
  const int64_t sequence = row / p.before;
  const float temperature = p.temperature[sequence];
  if (temperature == 0.0f) return;
  const int place = static_cast<int>(threadIdx.x);
  const bool exists = place < p.topCount;
  float* const logprobs = p.topLogprobs + row * p.topCount;

  // 1. The filters.
  const int topK = p.topK[sequence];
  const float topP = p.topP[sequence];
  const float minP = p.minP[sequence];
  const float first = __fdiv_rn(logprobs[0], temperature);
  const float scaled = exists ? __fdiv_rn(logprobs[place], temperature) : -infinity();
  const double least = minP > 0.0f ? static_cast<double>(first) + log(static_cast<double>(minP))
                                   : -static_cast<double>(infinity());
  bool isKept = static_cast<double>(scaled) >= least && fabsf(scaled) < infinity() &&
                (topK <= 0 || place < topK);
  if (topP < 1.0f) {
    weights[place] = isKept ? expf(scaled - first) : 0.0f;
    __syncthreads();
    isKept = isKept && isInNucleus(weights, p.topCount, topP);
  }

  // 2. Keys, and their distance to the best.
  double key = 0.0;
  if (isKept) {
    const int token = p.topTokens[row * p.topCount + place];
    const NoiseSource noise = {p.seeds[2 * sequence], p.seeds[2 * sequence + 1],
                               static_cast<uint32_t>(p.positions[sequence] + p.ahead)};
    const uint32_t word = noise.word(p.tokenMap == nullptr ? token : p.tokenMap[token]);
    key = __dadd_rn(static_cast<double>(scaled), gumbelOf(word));
  }
  const uint64_t best = blockMax(isKept ? orderOf(key) : 0, scratch);
  if (!exists) return;
  logprobs[place] =
      isKept ? static_cast<float>(__dadd_rn(key, -doubleOf(best))) : -infinity();
}

}  // namespace perigee
