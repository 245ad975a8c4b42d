// GEMM microkernel of quantised weights: integer sums over the columns that share a scale, then
// scaled and summed in f32. Input: TilePacker in linear-tile.h. Formula: linear.cpp.
//
//   totals += sum * (scale_w * scale_x) + min_w * (scale_x * sum_x)    for each 16 or 32 columns
//
// The weights come from a source, group by group: PackedSource (packed-panel.h) takes numbers out
// of 2 to 8 bits again for each tile; ExpandedSource (expanded-panel.h) has
// their bytes and f32 scales, which pays where several tiles use a panel. Both give the same bits.
#pragma once

#include "linear-dot.h"
#include "linear-tile.h"
#include "packed-panel.h"

namespace perigee {

#if defined(__AVX2__) && !defined(PERIGEE_DOT_BYTES)

/// Steps whose products of two columns can be summed in 16 bits.
constexpr int pairSteps(int largest) {
  const int steps = 32767 / (largest * 2 * 127);
  return steps < 1 ? 1 : steps > kBlockSteps ? kBlockSteps : steps;
}

/// Adds products of unsigned bytes of at most kLargest, kCount steps from kFirst on: 16 bits are
/// enough for several steps, which saves an instruction for each.
template <int kLargest, int kFirst, int kCount, int M, typename Source>
__attribute__((always_inline)) inline void addSmallSteps(I32 (&sums)[M][kPanelVectors],
                                                         const Source& weights,
                                                         const uint32_t* x) {
  constexpr int steps = pairSteps(kLargest) < kCount ? pairSteps(kLargest) : kCount;
  static_assert(kCount % steps == 0, "whole runs of steps");
#pragma GCC unroll 8
  for (int start = kFirst; start < kFirst + kCount; start += steps) {
    __m256i pairs[M][kPanelVectors];
#pragma GCC unroll 8
    for (int i = 0; i < steps; ++i) {
      __m256i weight[kPanelVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        weight[v] = bitCast<__m256i>(weights.step(start + i, v));
      }
#pragma GCC unroll 8
      for (int row = 0; row < M; ++row) {
        const __m256i word = _mm256_set1_epi32(static_cast<int>(x[(start + i) * M + row]));
#pragma GCC unroll 2
        for (int v = 0; v < kPanelVectors; ++v) {
          const __m256i products = _mm256_maddubs_epi16(weight[v], word);
          pairs[row][v] = i == 0 ? products : _mm256_add_epi16(pairs[row][v], products);
          makeHere(pairs[row][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < M; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        sums[row][v] += bitCast<I32>(_mm256_madd_epi16(pairs[row][v], _mm256_set1_epi16(1)));
      }
    }
  }
}

/// Adds products of any signed bytes: |w| times x with the sign of w, since vpmaddubsw takes one
/// unsigned operand. |-128| is 128 there, and two products are at most 2 * 128 * 127.
template <int kFirst, int kCount, int M, typename Source>
__attribute__((always_inline)) inline void addSignedSteps(I32 (&sums)[M][kPanelVectors],
                                                          const Source& weights,
                                                          const uint32_t* x) {
#pragma GCC unroll 8
  for (int step = kFirst; step < kFirst + kCount; ++step) {
    __m256i weight[kPanelVectors], magnitude[kPanelVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) {
      weight[v] = bitCast<__m256i>(weights.step(step, v));
      magnitude[v] = _mm256_abs_epi8(weight[v]);
    }
#pragma GCC unroll 8
    for (int row = 0; row < M; ++row) {
      const __m256i word = _mm256_set1_epi32(static_cast<int>(x[step * M + row]));
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        const __m256i pairs =
            _mm256_maddubs_epi16(magnitude[v], _mm256_sign_epi8(word, weight[v]));
        sums[row][v] += bitCast<I32>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        makeHere(sums[row][v]);
      }
    }
  }
}

/// Adds products of numbers of 16 bits, two columns a word.
template <int kFirst, int kCount, int M, typename Source>
__attribute__((always_inline)) inline void addWideSteps(I32 (&sums)[M][kPanelVectors],
                                                        const Source& weights,
                                                        const uint32_t* x) {
#pragma GCC unroll 16
  for (int step = kFirst; step < kFirst + kCount; ++step) {
    __m256i weight[kPanelVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVectors; ++v) weight[v] = bitCast<__m256i>(weights.step(step, v));
#pragma GCC unroll 8
    for (int row = 0; row < M; ++row) {
      const __m256i word = _mm256_set1_epi32(static_cast<int>(x[step * M + row]));
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v) {
        sums[row][v] += bitCast<I32>(_mm256_madd_epi16(weight[v], word));
        makeHere(sums[row][v]);
      }
    }
  }
}

constexpr bool kPairs = true;

#else

template <int kLargest, int kFirst, int kCount, int M, typename Source>
void addSmallSteps(I32 (&sums)[M][kPanelVectors], const Source& weights, const uint32_t* x);

template <int kFirst, int kCount, int M, typename Source>
void addSignedSteps(I32 (&sums)[M][kPanelVectors], const Source& weights, const uint32_t* x);

template <int kFirst, int kCount, int M, typename Source>
void addWideSteps(I32 (&sums)[M][kPanelVectors], const Source& weights, const uint32_t* x);

constexpr bool kPairs = false;

#endif

/// Adds the integer products of kCount steps of a group, from kFirst on.
template <int kLargest, int kFirst, int kCount, int M, typename Source>
__attribute__((always_inline)) inline void addBlockSteps(I32 (&sums)[M][kPanelVectors],
                                                         const Source& weights,
                                                         const uint32_t* x) {
  if constexpr (Source::kWide) {
    addWideSteps<kFirst, kCount>(sums, weights, x);
  } else if constexpr (kPairs && kLargest < 255) {
    addSmallSteps<kLargest, kFirst, kCount>(sums, weights, x);
  } else if constexpr (kPairs) {
    addSignedSteps<kFirst, kCount>(sums, weights, x);
  } else {
#pragma GCC unroll 8
    for (int step = kFirst; step < kFirst + kCount; ++step) {
      U32 weight[kPanelVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) weight[v] = weights.step(step, v);
#pragma GCC unroll 16
      for (int row = 0; row < M; ++row) {
        const DotI8::Word word = DotI8::spread(x[step * M + row]);
#pragma GCC unroll 4
        for (int v = 0; v < kPanelVectors; ++v) {
          sums[row][v] = DotI8::dot(sums[row][v], weight[v], word);
        }
      }
    }
  }
}

/// Adds the columns of the `kSub`-th scale of a group to the totals. `x`: the group of a tile.
template <int kSub, int M, typename Source>
__attribute__((always_inline)) inline void addScaledColumns(F32 (&totals)[M][kPanelVectors],
                                                            const Source& weights,
                                                            const uint32_t* x) {
  constexpr PanelShape shape = Source::kShape;
  constexpr int count = Source::kSteps / shape.scales;
  constexpr int scaleAt = shape.corrections() - 1;
  I32 sums[M][kPanelVectors];
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    // Minus what the excess of the bytes contributes, which the products then add.
    const I32 first =
        shape.hasExcess() ? I32{} + static_cast<int32_t>(x[kSub * M + row]) : I32{};
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) sums[row][v] = first;
  }
  addBlockSteps<shape.largest, kSub * count, count>(sums, weights, x + shape.corrections() * M);

  F32 scales[kPanelVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kPanelVectors; ++v) scales[v] = weights.scale(kSub, v);
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    const F32 scaleX = broadcast(bitCast<float>(x[scaleAt * M + row]));
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      totals[row][v] = fma(toFloat(sums[row][v]), scales[v] * scaleX, totals[row][v]);
    }
  }
  if constexpr (shape.mins) {
    F32 mins[kPanelVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) mins[v] = weights.min(kSub, v);
#pragma GCC unroll 16
    for (int row = 0; row < M; ++row) {
      const F32 sum = broadcast(bitCast<float>(x[(shape.scales + kSub) * M + row]));
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) {
        totals[row][v] = fma(mins[v], sum, totals[row][v]);
      }
    }
  }
}

/// M packed rows times one panel.
template <typename Source, int M>
void multiplyBlocks(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
                    float* out) {
  // Unrolled here and at the end, or the compiler would keep them in memory.
  F32 totals[M][kPanelVectors];
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) totals[row][v] = F32{};
  }
  Source weights(panel);
  const int64_t groups = blockCount(columns);
  for (int64_t group = 0; group < groups; ++group) {
    if (next.bytesPerStep > 0) {
      for (int step = 0; step < kBlockSteps; ++step) {
        __builtin_prefetch(next.at(group * kBlockSteps + step), 0, 2);
      }
    }
    weights.begin(group);
    if constexpr (Source::kGroupBytes > 0) {
      if (next.isAhead()) next.askAhead(weights.bytesFrom(panel), Source::kGroupBytes);
    }
    addScaledColumns<0>(totals, weights, x);
    if constexpr (Source::kShape.scales == 2) {
      addScaledColumns<1>(totals, weights, x);
    }
    x += (Source::kShape.corrections() + Source::kSteps) * M;
  }
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      store(out + row * kPanelRows + v * kLanes, totals[row][v]);
    }
  }
}

}  // namespace perigee
