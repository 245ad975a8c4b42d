// Softmax over tiles of scores as they come, on registers in the order of wgmma's sums
// (warpgroup-products.h): a thread has two rows, 8 apart, and two of every 8 columns.
#pragma once

#include "packed-rows.h"
#include "warpgroup-products.h"

namespace perigee {

/// Positions of a tile: columns of its scores.
constexpr int kTileKeys = 128;

constexpr float kLog2OfE = 1.4426950408889634f;

/// Of the 16 pairs of scores that a thread has per row and tile, every n-th is exponentiated by
/// products, beside the units for exp2, which give a multiprocessor 16 numbers per cycle; 0: none.
constexpr int kProductsEvery = 0;

/// Which positions a thread's two rows see, [begin, end), and what all 16 rows of its warp see.
struct RowPair {
  int begin[2];
  int end[2];
  int warpBegin;
  int warpEnd;

  /// Whether some row of the warp does not see all of the tile at `start`.
  __device__ bool cuts(int start) const { return start < warpBegin || start + kTileKeys > warpEnd; }
};

/// By what sums over values shrink when a tile brings a new maximum. A row that keeps its own has a
/// factor of exactly 1, so it has the same bits whether or not another row of its warp shrinks.
struct Shrink {
  float factor[2];

  /// Whether a row of the warp shrinks. All lanes call it.
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

/// The largest of four lanes, which share a row.
__device__ __forceinline__ float quadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float quadSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/// Word i of lane j of four becomes word j of lane i.
__device__ __forceinline__ void turnQuad(uint32_t (&words)[4]) {
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

/// 2^x by products alone, for x below 126: within 1.1e-4 of itself, which the rounding to 16 bits
/// hides; 0 from -127 down. x is a whole number, to the nearest, and a rest; adding 1.5 * 2^23
/// leaves the number in the lowest bits.
__device__ __forceinline__ float powerByProducts(float x) {
  constexpr float kRounder = 12582912.0f;
  const float bounded = fmaxf(x, -127.0f);
  const float shifted = bounded + kRounder;
  const float rest = bounded - (shifted - kRounder);
  // Best relative error on [-0.5, 0.5] among those that are 1 at 0, so that 2^-127 has no bits.
  const float power =
      fmaf(fmaf(fmaf(0.055008605f, rest, 0.24221101f), rest, 0.69328296f), rest, 1.0f);
  return __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23));
}

/// Whether a thread's score number `i` is exponentiated by products.
__device__ constexpr bool goesByProducts(int i) {
  constexpr int kEvery = kProductsEvery > 0 ? kProductsEvery : 1;
  return kProductsEvery > 0 && i / 4 % kEvery == 0;
}

/// Two rows' softmax so far.
struct RunningSoftmax {
  float maximum[2];  // as an exponent of 2, -inf before a row saw anything
  float sum[2];      // this thread's part, until finish()
  float factor;      // from scores, behind the cap, to exponents of 2
  float capIn;       // scores times this are an angle; 0: no cap
  float cap;

  __device__ RunningSoftmax(float scale, float softcap)
      : maximum{-infinity(), -infinity()},
        sum{0.0f, 0.0f},
        factor((softcap > 0.0f ? 1.0f : scale) * kLog2OfE),
        capIn(softcap > 0.0f ? scale / softcap : 0.0f),
        cap(softcap) {}

  /// Turns the scores of the tile at position `start` into weights.
  __device__ __forceinline__ Shrink add(float (&scores)[kTileKeys / 2], const RowPair& pair,
                                        int start) {
    if (capIn != 0.0f) capScores(scores);
    if (pair.cuts(start)) hide(scores, pair, start);

    Shrink shrink;
#pragma unroll
    for (int which = 0; which < 2; ++which) shrink.factor[which] = raise(scores, which);
#pragma unroll
    for (int which = 0; which < 2; ++which) weigh(scores, which, shrink.factor[which]);
    return shrink;
  }

  /// Puts the sums of four lanes together.
  __device__ void finish() {
    sum[0] = quadSum(sum[0]);
    sum[1] = quadSum(sum[1]);
  }

 private:
  /// Raises a row's maximum to that of its scores; by what older weights shrink.
  __device__ float raise(const float (&scores)[kTileKeys / 2], int which) {
    float most = -infinity();
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; i += 4) {
      most = fmaxf(most, fmaxf(scores[i + 2 * which], scores[i + 2 * which + 1]));
    }
    const float highest = quadMax(most) * factor;

    // False while nothing was seen: both are -inf. For the first score, 2^-inf is 0.
    const float old = maximum[which];
    const bool rises = highest > old;
    maximum[which] = rises ? highest : old;
    return rises ? powerOfTwo(old - highest) : 1.0f;
  }

  /// Scores to weights. That of -inf is 0, also where the maximum itself is still -inf.
  __device__ void weigh(float (&scores)[kTileKeys / 2], int which, float shrink) {
    const float origin = maximum[which] == -infinity() ? 0.0f : maximum[which];
    float added = 0.0f;
#pragma unroll
    for (int i = 0; i < kTileKeys / 2; ++i) {
      if (i % 4 / 2 != which) continue;
      const float exponent = fmaf(scores[i], factor, -origin);
      scores[i] = goesByProducts(i) ? powerByProducts(exponent) : powerOfTwo(exponent);
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

  /// Chosen, not added: the score of a position that was never written may be NaN.
  __device__ void hide(float (&scores)[kTileKeys / 2], const RowPair& pair, int start) const {
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

/// Weights of a tile as the left operand of their product with the values.
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
