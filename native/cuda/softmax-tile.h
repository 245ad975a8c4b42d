// Online softmax over tiles of scores in registers, in the layout of wgmma accumulators
// (warpgroup-products.h): a thread holds two rows, 8 apart, and two of every 8 columns.
#pragma once

#include "packed-rows.h"
#include "warpgroup-products.h"

namespace perigee {

/// Positions of a tile: columns of its scores.
constexpr int kTileKeys = 128;

constexpr float kLog2OfE = 1.4426950408889634f;

/// Of a thread's 16 pairs of scores per row and tile, every n-th is exponentiated by a polynomial
/// on the FMA units instead of the exp2 units, which yield 16 results per cycle and SM; 0: none.
constexpr int kPolynomialEvery = 0;

/// Positions [begin, end) that a thread's two rows see, and those that all 16 rows of its warp see.
struct RowPair {
  int begin[2];
  int end[2];
  int warpBegin;
  int warpEnd;

  /// Whether the tile at `start` needs masking for some row of the warp.
  __device__ bool cuts(int start) const { return start < warpBegin || start + kTileKeys > warpEnd; }
};

/// Rescaling factors of the sums over values after a tile with a new maximum. A row that keeps its
/// maximum has a factor of exactly 1, so its bits do not depend on the other rows of its warp.
struct Shrink {
  float factor[2];

  /// Whether any row of the warp needs rescaling. All lanes call it.
  __device__ bool isNeeded() const {
    return __any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f) != 0;
  }

  template <int kCount>
  __device__ void apply(float (&sums)[kCount]) const {
    if (!isNeeded()) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] *= factor[i % 4 / 2];
  }
};

/// Maximum over the four lanes that share a row.
__device__ __forceinline__ float quadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float quadSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/// Transposes a 4 x 4 matrix over four lanes: word i of lane j becomes word j of lane i.
__device__ __forceinline__ void transposeQuad(uint32_t (&words)[4]) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool upper = (threadIdx.x & static_cast<unsigned>(bit)) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const uint32_t given = upper ? words[i] : words[i + bit];
      const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, bit);
      words[i] = upper ? taken : words[i];
      words[i + bit] = upper ? words[i + bit] : taken;
    }
  }
}

/// 2^x by a polynomial on the FMA units, for x below 126. The relative error is 1.1e-4, which the
/// rounding to 16 bits hides; 0 from -127 down. x is split into the nearest integer and a
/// remainder; adding 1.5 * 2^23 leaves the integer in the lowest bits.
__device__ __forceinline__ float powerByPolynomial(float x) {
  constexpr float kRounder = 12582912.0f;
  const float bounded = fmaxf(x, -127.0f);
  const float shifted = bounded + kRounder;
  const float rest = bounded - (shifted - kRounder);
  // Minimax polynomial on [-0.5, 0.5] (relative error) with the value 1 at 0, so that 2^-127 has
  // all bits 0.
  const float power =
      fmaf(fmaf(fmaf(0.055008605f, rest, 0.24221101f), rest, 0.69328296f), rest, 1.0f);
  return __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23));
}

/// Whether a thread's score number `i` is exponentiated by the polynomial.
__device__ constexpr bool usesPolynomial(int i) {
  constexpr int kEvery = kPolynomialEvery > 0 ? kPolynomialEvery : 1;
  return kPolynomialEvery > 0 && i / 4 % kEvery == 0;
}

/// Online softmax state of two rows.
struct RunningSoftmax {
  float maximum[2];  // as an exponent of 2; -inf until a row sees a position
  float sum[2];      // this thread's part, until finish()
  float factor;      // from scores, after the cap, to exponents of 2
  float capIn;       // from scores to the argument of tanh; 0: no softcap
  float cap;

  __device__ RunningSoftmax(float scale, float softcap)
      : maximum{-infinity(), -infinity()},
        sum{0.0f, 0.0f},
        factor((softcap > 0.0f ? 1.0f : scale) * kLog2OfE),
        capIn(softcap > 0.0f ? scale / softcap : 0.0f),
        cap(softcap) {}

  /// Replaces the scores of the tile at position `start` by weights.
  __device__ __forceinline__ Shrink add(float (&scores)[kTileKeys / 2], const RowPair& pair,
                                        int start) {
    if (capIn != 0.0f) capScores(scores);
    if (pair.cuts(start)) maskScores(scores, pair, start);

    Shrink shrink;
#pragma unroll
    for (int which = 0; which < 2; ++which) shrink.factor[which] = raise(scores, which);
#pragma unroll
    for (int which = 0; which < 2; ++which) weigh(scores, which, shrink.factor[which]);
    return shrink;
  }

  /// Sums over the four lanes of each row.
  __device__ void finish() {
    sum[0] = quadSum(sum[0]);
    sum[1] = quadSum(sum[1]);
  }

 private:
  /// Raises a row's maximum to that of its scores; returns the rescaling factor of older weights.
  __device__ float raise(const float (&scores)[kTileKeys / 2], int which) {
    float most = -infinity();
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; i += 4) {
      most = fmaxf(most, fmaxf(scores[i + 2 * which], scores[i + 2 * which + 1]));
    }
    const float highest = quadMax(most) * factor;

    // False while the row has seen nothing: both are -inf. For its first score the factor 2^-inf is
    // 0.
    const float old = maximum[which];
    const bool rises = highest > old;
    maximum[which] = rises ? highest : old;
    return rises ? powerOfTwo(old - highest) : 1.0f;
  }

  /// Scores to weights. A score of -inf gives 0, also while the maximum itself is -inf.
  __device__ void weigh(float (&scores)[kTileKeys / 2], int which, float shrink) {
    const float origin = maximum[which] == -infinity() ? 0.0f : maximum[which];
    float added = 0.0f;
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; ++i) {
      if (i % 4 / 2 != which) continue;
      const float exponent = fmaf(scores[i], factor, -origin);
      scores[i] = usesPolynomial(i) ? powerByPolynomial(exponent) : powerOfTwo(exponent);
      added += scores[i];
    }
    sum[which] = fmaf(sum[which], shrink, added);
  }

  /// cap * tanh(score * scale / cap), by tanh(x) = 1 - 2 / (e^2x + 1).
  __device__ void capScores(float (&scores)[kTileKeys / 2]) const {
    const float doubled = 2.0f * kLog2OfE * capIn;
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; ++i) {
      scores[i] = cap - __fdividef(2.0f * cap, powerOfTwo(scores[i] * doubled) + 1.0f);
    }
  }

  /// Selects instead of adding -inf: the score of a position that was never written may be NaN.
  __device__ void maskScores(float (&scores)[kTileKeys / 2], const RowPair& pair, int start) const {
    const int column = start + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; ++i) {
      const int position = column + i / 4 * 8 + i % 2;
      const int which = i % 4 / 2;
      const bool seen = position >= pair.begin[which] && position < pair.end[which];
      scores[i] = seen ? scores[i] : -infinity();
    }
  }
};

/// Weights of a tile as the left operand of the product with the values.
template <typename T>
__device__ __forceinline__ void packWeights(uint32_t (&weights)[kTileKeys / 16][4],
                                            const float (&scores)[kTileKeys / 2]) {
#pragma unroll
  for (int step = 0; step < kTileKeys / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const two = scores + 8 * step + 2 * i;
      weights[step][i] = WarpgroupProducts<T>::pair(two[0], two[1]);
    }
  }
}

}  // namespace perigee
