// Token sampling, one token per row: temperature, top-k, top-p and min-p.
//
// Formula  temperature 0: argmax, the first of equal logits. Else scaled = logit / temperature; a
//          token is kept if scaled >= max + ln(min_p), if scaled >= the k-th largest, and if it is
//          in the smallest set of most likely tokens whose probability reaches top_p (the nucleus).
//          The result is the kept token with the largest scaled + noise(seed, position, token), of
//          equals the lowest id (gumbel-race.h). Sums and keys are in f64.
// Shapes   logits [R, V]; seeds [R, 2]; the other inputs and the output [R]
// Work     one task per slice of a row for maxima, for sums, and for the race without top_k and
//          top_p; with these one task per row
// Bound    memory: 4 V bytes per row. The race reads only logits that can win. top_p reads the row
//          again, with an f64 exp (1 ns a token), and once more the chunks that hold a candidate
// Checked  test/contracts/device-ops/logits.ts, sample; test/devices/cpu/sample.test.ts
//
//    chunk maxima ---> top_p: sums per slice -> candidates -> its last token = bound --> race
//    [V / 64]     \--> top_k: the k-th largest = bound ---------------------------------> race
//                  \-> else: bound of min_p, or none --------------------> race per slice
#include <cmath>

#include "gumbel-race.h"
#include "params.h"
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

constexpr int64_t kBins = 4096;
constexpr int32_t kAllTokens = std::numeric_limits<int32_t>::max();

struct Candidate {
  double weight;
  float scaled;
  int32_t token;

  bool operator<(const Candidate& other) const {
    return scaled > other.scaled || (scaled == other.scaled && token < other.token);
  }
};

// Sampling parameters of one row; thresholds apply to scaled logits.
struct Draw {
  float temperature;
  int64_t topK;  // 0: off
  double topP;   // 1: off
  double max;    // largest scaled logit
  double least;  // smallest scaled logit that min_p keeps
  bool greedy;   // argmax; also where the largest logit is infinite, which leaves no distribution

  bool selects() const { return !greedy && (topK > 0 || topP < 1); }
  // Top-p without top-k needs the sum over the whole row before it can select candidates.
  bool needsTotal() const { return selects() && topK == 0; }
  // Min-p alone keeps all of its limit.
  RaceBound openBound() const {
    return least > kNoLogit ? RaceBound{least, kAllTokens} : RaceBound{};
  }
  float scale(float logit) const { return logit / temperature; }
};

Draw drawOf(const SampleParams& p, const VocabularyRow& row, int64_t index) {
  Draw draw;
  draw.temperature = p.temperature[index];
  const int64_t k = p.topK[index];
  draw.topK = k > 0 && k < row.tokens ? k : 0;
  draw.topP = p.topP[index];
  draw.max = draw.scale(row.max());
  draw.greedy = draw.temperature == 0 || !std::isfinite(draw.max);
  const double minP = p.minP[index];
  draw.least = minP > 0 ? draw.max + std::min(std::log(minP), 0.0) : kNoLogit;
  return draw;
}

// A chunk's scaled logits and weights exp(scaled - max), computed as vectors.
struct ChunkWeights {
  float scaled[kChunkTokens];
  double weights[kChunkTokens];  // 0 below draw.least

  void compute(const Draw& draw, const float* logits, int64_t count) {
    for (int64_t i = 0; i < count; ++i) scaled[i] = draw.scale(logits[i]);
    for (int64_t i = 0; i < count; ++i) weights[i] = expNegative(scaled[i] - draw.max);
    if (!(draw.least > kNoLogit)) return;
    for (int64_t i = 0; i < count; ++i) {
      if (!(scaled[i] >= draw.least)) weights[i] = 0.0;
    }
  }
};

double sumOfSlice(const VocabularyRow& row, const Draw& draw, int64_t slice) {
  double sum = 0.0;
  ChunkWeights chunk;
  const int64_t end = std::min((slice + 1) * kSliceTokens, row.tokens);
  for (int64_t token = slice * kSliceTokens; token < end; token += kChunkTokens) {
    const int64_t count = std::min(kChunkTokens, end - token);
    chunk.compute(draw, row.logits + token, count);
    for (int64_t i = 0; i < count; ++i) sum += chunk.weights[i];
  }
  return sum;
}

// The last token of the nucleus: the smallest set of most likely tokens whose weights reach
// `target`. A histogram over scaled logits finds the bin of that token; only this bin's candidates
// are sorted. `sorted` must hold all candidates.
Candidate lastOfNucleus(const Candidate* candidates, int64_t count, const Draw& draw,
                        double target, double* bins, Candidate* sorted) {
  double lowest = draw.max;
  for (int64_t i = 0; i < count; ++i) lowest = std::min<double>(lowest, candidates[i].scaled);
  const double perUnit = (kBins - 1) / std::max(draw.max - lowest, 1e-30);
  const auto binOf = [&](const Candidate& c) {
    return static_cast<int64_t>((draw.max - c.scaled) * perUnit);
  };
  std::fill_n(bins, kBins, 0.0);
  int64_t lastBin = 0;
  for (int64_t i = 0; i < count; ++i) {
    bins[binOf(candidates[i])] += candidates[i].weight;
    lastBin = std::max(lastBin, binOf(candidates[i]));
  }

  int64_t bin = 0;
  while (bin < lastBin && (bins[bin] == 0.0 || bins[bin] < target)) target -= bins[bin++];
  const Candidate* const end = candidates + count;
  Candidate* const sortedEnd = std::copy_if(
      candidates, end, sorted, [&](const Candidate& c) { return binOf(c) == bin; });
  std::sort(sorted, sortedEnd);
  const Candidate* last = sorted;
  for (double sum = last->weight; last + 1 < sortedEnd && sum < target;) sum += (++last)->weight;
  return *last;
}

// Lower bound of the candidates' scaled logits. `scratch`: memory for the selection of the k-th
// largest.
double leastOf(const VocabularyRow& row, const Draw& draw, double total, float* scratch) {
  if (draw.topK > 0) {
    return std::max<double>(draw.least, draw.scale(row.kthLargest(draw.topK, scratch)));
  }
  if (draw.topP >= 1) return draw.least;
  // At most V tokens weigh less than `weight`. Together they weigh less than (1 - top_p) * total,
  // the part that top_p drops. So none of them is in the nucleus.
  const double weight = (1.0 - draw.topP) * total / static_cast<double>(row.tokens);
  return std::max(draw.least, draw.max + std::log(weight) - 1e-3);
}

// Candidates by rising id; returns their number.
int64_t gatherCandidates(const VocabularyRow& row, const Draw& draw, double least,
                         Candidate* candidates) {
  ChunkWeights chunk;
  int64_t count = 0;
  for (int64_t c = 0; c < chunksOf(row.tokens); ++c) {
    if (!(draw.scale(row.chunkMax[c]) >= least)) continue;
    const int64_t begin = c * kChunkTokens;
    chunk.compute(draw, row.logits + begin, row.chunkEnd(c) - begin);
    for (int64_t i = 0; i < row.chunkEnd(c) - begin; ++i) {
      candidates[count] = {chunk.weights[i], chunk.scaled[i], static_cast<int32_t>(begin + i)};
      count += chunk.scaled[i] >= least && chunk.weights[i] > 0.0 ? 1 : 0;
    }
  }
  return count;
}

double sumOfWeights(const Candidate* candidates, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += candidates[i].weight;
  return sum;
}

// The tokens that top_k and top_p keep.
RaceBound boundOf(const VocabularyRow& row, const Draw& draw, double total, ThreadPool& pool,
                  int thread) {
  auto* const bins = reinterpret_cast<double*>(
      pool.scratch<Candidate>(kBins + 2 * (row.tokens + 1), thread));
  auto* const candidates = reinterpret_cast<Candidate*>(bins) + kBins;
  // The candidates' memory is not in use yet, so it serves as scratch for the selection.
  const double least = leastOf(row, draw, total, reinterpret_cast<float*>(candidates));
  if (draw.topP >= 1) return {least, kAllTokens};

  const int64_t count = gatherCandidates(row, draw, least, candidates);
  const double all = draw.topK > 0 ? sumOfWeights(candidates, count) : total;
  const Candidate last = lastOfNucleus(candidates, count, draw, draw.topP * all, bins,
                                       candidates + row.tokens + 1);
  return {last.scaled, last.token};
}

// What a slice of a row gives: its sum, or the winner of its race.
struct SliceResult {
  double sum;
  RaceWinner winner;
};

double totalOf(const SliceResult* results, int64_t slices) {
  double total = 0.0;
  for (int64_t slice = 0; slice < slices; ++slice) total += results[slice].sum;
  return total;
}

}  // namespace

PERIGEE_EXPORT void perigee_sample(const SampleParams* params) {
  const SampleParams& p = *params;
  const int64_t rows = p.count;
  const int64_t slices = slicesOf(p.tokens);
  const int64_t chunksPerSlice = kSliceTokens / kChunkTokens;
  const int64_t drawBytes = rows * static_cast<int64_t>(sizeof(Draw));
  const int64_t resultBytes = rows * slices * static_cast<int64_t>(sizeof(SliceResult));
  const VocabularyRows vocabulary(*p.pool, p.logits, rows, p.tokens, drawBytes + resultBytes);
  auto* const draws = static_cast<Draw*>(vocabulary.extra());
  auto* const results = reinterpret_cast<SliceResult*>(draws + rows);
  const auto raceOf = [&](int64_t r, const RaceBound& bound) {
    return Race(vocabulary.row(r), p.temperature[r], p.seeds + 2 * r, p.positions[r], bound);
  };

  bool sliced = false;
  for (int64_t r = 0; r < rows; ++r) {
    draws[r] = drawOf(p, vocabulary.row(r), r);
    sliced |= !draws[r].greedy && (!draws[r].selects() || draws[r].needsTotal());
  }
  p.pool->parallelFor(sliced ? rows * slices : 0, [&](int64_t task, int) {
    const int64_t r = task / slices;
    const Draw& draw = draws[r];
    if (draw.needsTotal()) {
      results[task].sum = sumOfSlice(vocabulary.row(r), draw, task % slices);
    } else if (!draw.greedy && !draw.selects()) {
      const int64_t first = task % slices * chunksPerSlice;
      const int64_t end = std::min(first + chunksPerSlice, chunksOf(p.tokens));
      results[task].winner = raceOf(r, draw.openBound()).run(first, end);
    }
  });
  p.pool->parallelFor(rows, [&](int64_t r, int thread) {
    const VocabularyRow row = vocabulary.row(r);
    const Draw& draw = draws[r];
    const SliceResult* const ofRow = results + r * slices;
    RaceWinner winner;
    if (draw.greedy) {
      winner.token = row.firstOf(row.max());
    } else if (draw.selects()) {
      const double total = draw.needsTotal() ? totalOf(ofRow, slices) : 0.0;
      const RaceBound bound = boundOf(row, draw, total, *p.pool, thread);
      winner = raceOf(r, bound).run(0, chunksOf(p.tokens));
    } else {
      for (int64_t i = 0; i < slices; ++i) winner.offer(ofRow[i].winner.key, ofRow[i].winner.token);
    }
    p.out[r] = winner.token;
  });
}

}  // namespace perigee
