// One level of a beam search: of each sequence, the likeliest continuations of its beams.
//
// Formula  sum = scores[b] + topLogprobs[b][k] for all b, k of a sequence; the W largest, best
//          first, equal ones by rising b, then k; NaN comes last
// Shapes   topTokens, topLogprobs [S * before, K]; scores [S * before]; outScores, tokens, parents
//          [S * W]
// Work     one block per sequence, a thread per candidate: its place is the number of candidates
//          that rank higher, and no two rank alike
// Bound    latency: at most 256 candidates, compared in shared memory
// Checked  test/contracts/device-ops/drafter.ts, selectBeams
// Source   Cheng et al. 2024, "Recurrent drafter for fast speculative decoding in large language
//          models"
#include "vocabulary.h"

namespace perigee {

struct SelectBeamsParams {
  const int* topTokens;
  const float* topLogprobs;
  const float* scores;  // null: 0
  const int* tokenMap;  // null: a token stands for itself
  float* outScores;
  int* tokens;
  int* parents;
  int before;
  int topCount;  // K
  int width;     // W
};

/// The same as in src/devices/drafter-counts.ts.
constexpr int kBeamCandidatesMax = 256;

PERIGEE_KERNEL __launch_bounds__(kBeamCandidatesMax)
perigee_select_beams(const __grid_constant__ SelectBeamsParams p) {
  joinStream();
  __shared__ uint64_t rankings[kBeamCandidatesMax];
  const int64_t sequence = blockIdx.x;
  const int candidates = p.before * p.topCount;
  const int candidate = static_cast<int>(threadIdx.x);
  const bool exists = candidate < candidates;
  const int64_t row = sequence * p.before + candidate / p.topCount;
  const int64_t at = sequence * candidates + candidate;
  float sum = 0.0f;
  if (exists) {
    sum = (p.scores == nullptr ? 0.0f : p.scores[row]) + p.topLogprobs[at];
    rankings[candidate] = rankingOf(orderOf(sum), candidate);
  }
  __syncthreads();
  if (!exists) return;

  const uint64_t own = rankings[candidate];
  int place = 0;
  for (int other = 0; other < candidates; ++other) place += rankings[other] > own ? 1 : 0;
  if (place >= p.width) return;
  const int token = p.topTokens[at];
  const int64_t beam = sequence * p.width + place;
  p.outScores[beam] = sum;
  p.tokens[beam] = p.tokenMap == nullptr ? token : p.tokenMap[token];
  p.parents[beam] = static_cast<int>(row);
}

}  // namespace perigee
