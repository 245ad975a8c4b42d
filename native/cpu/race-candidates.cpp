// How far the likeliest tokens of a drafter's row are behind the winner of the race that sampling
// runs, with the same noise.
//
// Formula  scaled = logprob / temperature; key = scaled + noise(seed, position + ahead, token);
//          logprob = f32(key - the row's best key), -inf for what the filters drop: scaled below
//          the first one's + ln(min_p), places from top_k on, and those before which the sum of
//          exp(scaled - first) reaches top_p of all. Rows of temperature 0 stay as they are
// Shapes   topTokens, topLogprobs [S * before, K], best first; seeds [S, 2]; the others [S]
// Work     tasks of consecutive rows
// Bound    latency: at most 256 candidates a row
// Checked  test/contracts/device-ops/races.ts, raceCandidates
// Source   Daliri et al. 2024, "Coupling without communication and drafter-invariant speculative
//          decoding"
#include "gumbel.h"
#include "params.h"
#include "philox.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct RaceCandidatesParams {
  ThreadPool* pool;
  const int32_t* topTokens;
  float* topLogprobs;
  const int32_t* tokenMap;  // null: a token stands for itself
  const float* temperature;
  const int32_t* topK;
  const float* topP;
  const float* minP;
  const uint32_t* seeds;
  const int32_t* positions;
  Int count, before, topCount, ahead;  // S, K
};

namespace {

// The same as in src/devices/drafter-counts.ts.
constexpr int kCandidatesMax = 256;
// A candidate takes about the time in which this many floats are copied.
constexpr int64_t kCandidateFloats = 64;
constexpr float kDropped = -std::numeric_limits<float>::infinity();

// Random words of tokens, a vector at a time.
void wordsOf(const RaceCandidatesParams& p, int64_t sequence, const int32_t* tokens,
             uint32_t* words) {
  const uint32_t position = static_cast<uint32_t>(p.positions[sequence] + p.ahead);
  const int64_t count = p.topCount;
  for (int64_t first = 0; first < count; first += kLanes) {
    U32 ids = {};
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, count - first));
    for (int lane = 0; lane < lanes; ++lane) {
      const int32_t token = tokens[first + lane];
      ids[lane] = static_cast<uint32_t>(p.tokenMap == nullptr ? token : p.tokenMap[token]);
    }
    PhiloxBlocks random = noiseCounters(position, ids >> 2);
    philox(random, p.seeds[2 * sequence], p.seeds[2 * sequence + 1]);
    for (int lane = 0; lane < lanes; ++lane) {
      words[first + lane] = random.words[ids[lane] & 3u][lane];
    }
  }
}

// Sets candidates that the filters drop to -inf.
void filterRow(const RaceCandidatesParams& p, int64_t sequence, float* scaled) {
  const int64_t count = p.topCount, topK = p.topK[sequence];
  const double topP = p.topP[sequence], minP = p.minP[sequence];
  const float best = scaled[0];
  const double least = minP > 0 ? best + std::log(minP) : kDropped;
  for (int64_t i = 0; i < count; ++i) {
    if (!(scaled[i] >= least) || (topK > 0 && i >= topK)) scaled[i] = kDropped;
  }
  if (topP >= 1) return;
  double total = 0.0, sum = 0.0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(double{scaled[i]} - best);
  for (int64_t i = 0; i < count; ++i) {
    const double weight = std::exp(double{scaled[i]} - best);
    if (i > 0 && sum >= topP * total) scaled[i] = kDropped;
    sum += weight;
  }
}

void raceRow(const RaceCandidatesParams& p, int64_t row) {
  const int64_t sequence = row / p.before, count = p.topCount;
  const float temperature = p.temperature[sequence];
  if (temperature == 0.0f) return;
  float* const logprobs = p.topLogprobs + row * count;
  float scaled[kCandidatesMax];
  uint32_t words[kCandidatesMax];
  double keys[kCandidatesMax];
  for (int64_t i = 0; i < count; ++i) scaled[i] = logprobs[i] / temperature;
  filterRow(p, sequence, scaled);
  wordsOf(p, sequence, p.topTokens + row * count, words);

  double best = kDropped;
  for (int64_t i = 0; i < count; ++i) {
    keys[i] = std::isfinite(scaled[i]) ? scaled[i] + gumbelOf(words[i]) : kDropped;
    best = std::max(best, keys[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    logprobs[i] = keys[i] > kDropped ? static_cast<float>(keys[i] - best) : kDropped;
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_race_candidates(const RaceCandidatesParams* params) {
  const RaceCandidatesParams& p = *params;
  parallelRows(*p.pool, p.count * p.before, p.topCount * kCandidateFloats,
               [&](int64_t row, int) { raceRow(p, row); });
}

}  // namespace perigee
