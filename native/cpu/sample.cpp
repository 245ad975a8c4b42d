// One token per row.
//
// Formula  temperature 0: the first largest logit. Else scaled = logit / temperature, kept where
//          scaled >= max + ln(min_p), >= the k-th largest, and inside the smallest likeliest set
//          that reaches top_p; then the first token by rising id at which the running sum of
//          exp(scaled - max) exceeds uniformAt(seed, position) * total. Sums in f64.
// Shapes   logits [R, V]; the others [R], seeds [R, 2]
// Work     slices of all rows for maxima and sums, then rows for the draw
// Bound    memory: 4 V bytes per row, twice without a filter (the second time through f64 exp,
//          2 instructions per byte); with one, only chunks that have a candidate are looked at again
// Checked  test/contracts/device-ops.ts, sample
#include <cmath>

#include "params.h"
#include "philox.h"
#include "vocabulary.h"

namespace perigee {

struct SampleParams {
  ThreadPool* pool;
  int32_t* out;
  const float* logits;
  const float* temperature;
  const int32_t* topK;
  const float* topP;
  const float* minP;
  const uint32_t* seeds;
  const int32_t* positions;
  Int count, tokens;
};

namespace {

struct Candidate {
  double weight;
  float scaled;
  int32_t token;

  bool operator<(const Candidate& other) const {
    return scaled > other.scaled || (scaled == other.scaled && token < other.token);
  }
};

// One row's request, with thresholds on scaled logits.
struct Draw {
  float temperature;
  int64_t topK;  // 0: off
  double topP;   // 1: off
  double uniform;
  double max;    // largest scaled logit
  double least;  // what min_p keeps
  bool greedy;   // also where a distribution has no meaning: the largest logit is infinite

  bool filtered() const { return topK > 0 || topP < 1 || least > kNoLogit; }
  // Top-p alone needs the whole sum before it can look for candidates.
  bool needsTotal() const { return !greedy && topK == 0 && (topP < 1 || !filtered()); }
  float scale(float logit) const { return logit / temperature; }
  double weight(float scaled) const { return scaled >= least ? expNegative(scaled - max) : 0.0; }
};

Draw drawOf(const SampleParams& p, const VocabularyRow& row, int64_t index) {
  Draw draw;
  draw.temperature = p.temperature[index];
  const int64_t k = p.topK[index];
  draw.topK = k > 0 && k < row.tokens ? k : 0;
  draw.topP = p.topP[index];
  draw.uniform = uniformAt(p.seeds[2 * index], p.seeds[2 * index + 1],
                           static_cast<uint32_t>(p.positions[index]));
  draw.max = draw.scale(row.max());
  draw.greedy = draw.temperature == 0 || !std::isfinite(draw.max);
  const double minP = p.minP[index];
  draw.least = minP > 0 ? draw.max + std::log(minP) : kNoLogit;
  return draw;
}

constexpr int64_t kWeightsTogether = 64;

// Calls body(token, weights, count) for runs of the row; stops when it returns false.
template <typename Body>
void forWeights(const VocabularyRow& row, const Draw& draw, int64_t begin, int64_t end,
                const Body& body) {
  double weights[kWeightsTogether];
  for (int64_t token = begin; token < end; token += kWeightsTogether) {
    const int64_t count = std::min(kWeightsTogether, end - token);
    const float* const logits = row.logits + token;
    for (int64_t i = 0; i < count; ++i) weights[i] = draw.weight(draw.scale(logits[i]));
    if (!body(token, weights, count)) return;
  }
}

double sumOfSlice(const VocabularyRow& row, const Draw& draw, int64_t slice) {
  double sum = 0.0;
  const int64_t begin = slice * kSliceTokens;
  forWeights(row, draw, begin, std::min(begin + kSliceTokens, row.tokens),
             [&](int64_t, const double* weights, int64_t count) {
               for (int64_t i = 0; i < count; ++i) sum += weights[i];
               return true;
             });
  return sum;
}

double totalOf(const double* sliceSums, int64_t slices) {
  double total = 0.0;
  for (int64_t slice = 0; slice < slices; ++slice) total += sliceSums[slice];
  return total;
}

// Finds the slice that holds the token, then the token.
int32_t drawFromAll(const VocabularyRow& row, const Draw& draw, const double* sliceSums) {
  const int64_t slices = slicesOf(row.tokens);
  const double target = draw.uniform * totalOf(sliceSums, slices);
  double sum = 0.0;
  int64_t slice = 0;
  while (slice + 1 < slices && sum + sliceSums[slice] <= target) sum += sliceSums[slice++];

  int32_t last = row.firstOf(row.max());
  forWeights(row, draw, slice * kSliceTokens, row.tokens,
             [&](int64_t token, const double* weights, int64_t count) {
               for (int64_t i = 0; i < count; ++i) {
                 if (weights[i] == 0.0) continue;
                 sum += weights[i];
                 last = static_cast<int32_t>(token + i);
                 if (sum > target) return false;
               }
               return true;
             });
  return last;
}

// The last token of the smallest likeliest set whose weights reach `target`. Halves the candidates
// in place until few are left, so that only these are sorted.
Candidate lastOfNucleus(Candidate* begin, Candidate* end, double target) {
  constexpr int64_t kFew = 32;
  while (end - begin > kFew) {
    Candidate* const middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end);
    double upper = 0.0;
    for (const Candidate* c = begin; c < middle; ++c) upper += c->weight;
    if (upper >= target) {
      end = middle;
    } else {
      target -= upper;
      begin = middle;
    }
  }
  std::sort(begin, end);
  double sum = begin->weight;
  while (begin + 1 < end && sum < target) sum += (++begin)->weight;
  return *begin;
}

int32_t drawFromCandidates(const VocabularyRow& row, const Draw& draw, const double* sliceSums,
                           ThreadPool& pool, int thread) {
  auto* const candidates = pool.scratch<Candidate>(2 * row.tokens + 1, thread);
  double least = draw.least;
  if (draw.topK > 0) {
    // The candidates' own memory serves as the selection's scratch: it is not in use yet.
    const float kth = row.kthLargest(draw.topK, reinterpret_cast<float*>(candidates));
    least = std::max<double>(least, draw.scale(kth));
  } else if (draw.topP < 1) {
    // All that is below 1 / V of what top_p drops is dropped, even if it were everything else.
    const double total = totalOf(sliceSums, slicesOf(row.tokens));
    const double share = (1.0 - draw.topP) * total / static_cast<double>(row.tokens);
    least = std::max(least, draw.max + std::log(share) - 1e-3);
  }

  // By rising id. The threshold on raw logits is a little low; scaled ones decide.
  int64_t count = 0;
  double sum = 0.0;
  const double raw = least * draw.temperature;
  row.forAtLeast(static_cast<float>(raw - std::abs(raw) * 1e-6), [&](int32_t token) {
    const float scaled = draw.scale(row.logits[token]);
    if (!(scaled >= least)) return;
    candidates[count] = {draw.weight(scaled), scaled, token};
    sum += candidates[count++].weight;
  });

  Candidate last = {0.0, kNoLogit, 0};
  if (draw.topP < 1) {
    const double total = draw.topK > 0 ? sum : totalOf(sliceSums, slicesOf(row.tokens));
    std::copy_n(candidates, count, candidates + count);
    last = lastOfNucleus(candidates + count, candidates + 2 * count, draw.topP * total);
    sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
      if (!(last < candidates[i])) sum += candidates[i].weight;
    }
  }

  const double target = draw.uniform * sum;
  const bool nucleus = draw.topP < 1;
  int32_t drawn = row.firstOf(row.max());
  double running = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    if (candidates[i].weight == 0.0 || (nucleus && last < candidates[i])) continue;
    running += candidates[i].weight;
    drawn = candidates[i].token;
    if (running > target) break;
  }
  return drawn;
}

}  // namespace

PERIGEE_EXPORT void perigee_sample(const SampleParams* params) {
  const SampleParams& p = *params;
  const int64_t rows = p.count;
  const int64_t slices = slicesOf(p.tokens);
  const int64_t drawBytes = rows * static_cast<int64_t>(sizeof(Draw));
  const VocabularyRows vocabulary(*p.pool, p.logits, rows, p.tokens,
                                  drawBytes + rows * slices * 8);
  auto* const draws = static_cast<Draw*>(vocabulary.extra());
  auto* const sums = reinterpret_cast<double*>(draws + rows);

  bool totals = false;
  for (int64_t r = 0; r < rows; ++r) {
    draws[r] = drawOf(p, vocabulary.row(r), r);
    totals |= draws[r].needsTotal();
  }
  p.pool->parallelFor(totals ? rows * slices : 0, [&](int64_t task, int) {
    const int64_t r = task / slices;
    if (draws[r].needsTotal()) {
      sums[task] = sumOfSlice(vocabulary.row(r), draws[r], task % slices);
    }
  });
  p.pool->parallelFor(rows, [&](int64_t r, int thread) {
    const VocabularyRow row = vocabulary.row(r);
    const Draw& draw = draws[r];
    if (draw.greedy) {
      p.out[r] = row.firstOf(row.max());
    } else if (draw.filtered()) {
      p.out[r] = drawFromCandidates(row, draw, sums + r * slices, *p.pool, thread);
    } else {
      p.out[r] = drawFromAll(row, draw, sums + r * slices);
    }
  });
}

}  // namespace perigee
