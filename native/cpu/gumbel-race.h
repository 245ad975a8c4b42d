// The race of a row's tokens: the largest key = scaled logit + Gumbel noise wins, of equals the
// lowest id.
//
// Keys are computed in f64 with the bits of the definition, but only of tokens that can win. A word
// with n leading ones gives a noise of at most (n + 1) ln 2. So the largest logit of a chunk and
// the best key so far bound the leading ones that a token of the chunk needs:
//
//    none has enough bits ---> no random numbers, no logits: of a peaked distribution most chunks
//    else 64 random words in vectors, compared with the bound ---> keys of those that reach it
//
// Of V equal logits about 2 ln V keys are computed.
#pragma once

#include "gumbel.h"
#include "philox.h"
#include "vocabulary.h"

namespace perigee {

/// The tokens that filters keep: those with a larger scaled logit, and of equal ones those up to
/// an id. The default keeps all that are not forbidden.
struct RaceBound {
  double scaled = kNoLogit;
  int32_t token = -1;

  bool keeps(float value, int32_t id) const {
    return value > scaled || (value == scaled && id <= token);
  }
};

struct RaceWinner {
  double key = kNoLogit;
  int32_t token = 0;

  void offer(double otherKey, int32_t other) {
    if (otherKey < key || (otherKey == key && other > token)) return;
    key = otherKey;
    token = other;
  }
};

class Race {
 public:
  Race(const VocabularyRow& row, float temperature, const uint32_t* seed, int32_t position,
       const RaceBound& bound)
      : row_(row),
        temperature_(temperature),
        seedLow_(seed[0]),
        seedHigh_(seed[1]),
        position_(static_cast<uint32_t>(position)),
        bound_(bound) {}

  /// The winner among the tokens of chunks [begin, end).
  RaceWinner run(int64_t begin, int64_t end) {
    // The chunk with the largest logit goes first: the better the best key, the more is skipped.
    const float* const maxima = row_.chunkMax;
    const int64_t first = std::max_element(maxima + begin, maxima + end) - maxima;
    runChunk(first);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      if (chunk != first) runChunk(chunk);
    }
    return winner_;
  }

 private:
  // Allowance for the rounding of keys and noise.
  static constexpr double kSlack = 1e-9;
  static constexpr int kBlocks = kChunkTokens / 4;
  static_assert(kBlocks % kLanes == 0, "a chunk is whole vectors");

  double slack() const { return kSlack + 1e-15 * std::fabs(winner_.key); }

  void runChunk(int64_t chunk) {
    const float top = row_.chunkMax[chunk] / temperature_;
    if (!(top >= bound_.scaled) || top == kNoLogit) return;
    uint32_t least;
    if (!leastWord(winner_.key - top - slack(), least)) return;
    for (int block = 0; block < kBlocks; block += kLanes) {
      const uint32_t first = static_cast<uint32_t>(chunk * kBlocks + block);
      PhiloxBlocks random = noiseCounters(position_, blockIds() + first);
      philox(random, seedLow_, seedHigh_);
      for (int lane = 0; lane < 4; ++lane) {
        const U32 words = random.words[lane];
        for (uint32_t hits = lanesFrom(words, least); hits != 0; hits &= hits - 1) {
          const int place = __builtin_ctz(hits);
          offer(4 * static_cast<int64_t>(first + place) + lane, words[place]);
        }
      }
    }
  }

  static U32 blockIds() {
    U32 ids;
    for (int lane = 0; lane < kLanes; ++lane) ids[lane] = lane;
    return ids;
  }

  void offer(int64_t id, uint32_t word) {
    if (id >= row_.tokens) return;
    const int32_t token = static_cast<int32_t>(id);
    const float scaled = row_.logits[token] / temperature_;
    if (!bound_.keeps(scaled, token)) return;
    if (scaled + (gumbelBound(word) + slack()) < winner_.key) return;
    winner_.offer(scaled + gumbelOf(word), token);
  }

  const VocabularyRow row_;
  const float temperature_;
  const uint32_t seedLow_, seedHigh_, position_;
  const RaceBound bound_;
  RaceWinner winner_;
};

}  // namespace perigee
