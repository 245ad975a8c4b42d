// Softmax over tiles of scores as they come, on registers in the order of wgmma's sums
// (warpgroup-products.h): a thread has two rows, 8 apart, and two of every 8 columns.
#pragma once

#include "packed-rows.h"
#include "warpgroup-products.h"

namespace perigee {

/// Positions of a tile: columns of its scores.
constexpr int kTileKeys = 128;

constexpr float kLog2OfE = 1.4426950408889634f;

/// Which positions a thread's two rows see, [begin, end), and what all 16 rows of its warp see.
struct RowPair {
  int begin[2];
  int end[2];
  int warpBegin;
  int warpEnd;

  /// Whether some row of the warp does not see all of the tile at `start`.
  __device__ bool cuts(int start) const { return start < warpBegin || start + kTileKeys > warpEnd; }
};

/// By what sums over values shrink when a tile brings a new maximum.
struct Shrink {
  float factor[2];

  template <int kCount>
  __device__ void apply(float (&sums)[kCount]) const {
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

/// Two rows' softmax so far.
struct RunningSoftmax {
  float max[2];  // of scores as they come: before the scale, behind the cap
  float sum[2];  // this thread's part, until finish()
  float factor;  // to exponents of 2
  float capIn;   // scores times this are an angle; 0: no cap
  float cap;

  __device__ RunningSoftmax(float scale, float softcap)
      : max{-infinity(), -infinity()},
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
    for (int which = 0; which < 2; ++which) {
      float most = max[which];
#pragma unroll
      for (int i = 0; i < kTileKeys / 2; i += 4) {
        most = fmaxf(most, fmaxf(scores[i + 2 * which], scores[i + 2 * which + 1]));
      }
      most = quadMax(most);

      // 2^(-inf - x) is 0, also where nothing was seen yet and the maximum itself is -inf.
      const float reference = most == -infinity() ? 0.0f : most * factor;
      shrink.factor[which] = powerOfTwo(max[which] * factor - reference);
      max[which] = most;

      float added = 0.0f;
#pragma unroll
      for (int i = 0; i < kTileKeys / 2; ++i) {
        if (i % 4 / 2 != which) continue;
        scores[i] = powerOfTwo(fmaf(scores[i], factor, -reference));
        added += scores[i];
      }
      sum[which] = fmaf(sum[which], shrink.factor[which], added);
    }
    return shrink;
  }

  /// Puts the sums of four lanes together.
  __device__ void finish() {
    sum[0] = quadSum(sum[0]);
    sum[1] = quadSum(sum[1]);
  }

 private:
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
