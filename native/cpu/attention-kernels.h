// The two matrix products of attention for R query rows: scores = Q K^T and out = weights V.
//
// R rows · D head dim · Dv = D rounded up to 16 · G groups of 16 positions · C vectors of Dv
//
//            scoreGroups: R x (16 G) tile            sumColumns: R x (kLanes C) tile
//              keys [D][16 G] ->                       values [positions][kLanes C] ->
//    query   +----------------+            weights   +----------------+
//    [D][R]  | sums stay in   |            [R][pos]  | sums stay in   |
//      |     | registers      |              |       | registers      |
//      v     +----------------+              v       +----------------+
//            loop over D                             loop over positions
//
// Bound     Prefill, compute: each key or value vector is loaded once for R rows, and the sums stay
//           in registers. This reaches 96 % of the multiply-add peak (f32, AVX-512). Decode,
//           memory: values are prefetched while keys are scored, and the keys of the next segment
//           while values are summed.
// Versions  us per layer, prefill of 512 tokens and 16 decodes at 1k context; 9 query heads and 3
//           kv heads of 64, one Zen 4 core at 117 GFLOP/s (f32), 2026-11-21,
//           bench/kernels/attention.mjs:
//             f32   4325  2302  sums in registers
//                   3922  2159  broadcast loads from memory instead of an addition to zero
//                   3630  1207  prefetching; 8, 4, 2, 1 columns or groups at a time
//             bf16  5025  1263  each element widened to f32
//                   2441   652  dot products of pairs
//             i8    2806   473  dot products of 16-bit integer pairs, sums in 32 bits
//             fp8   4480   670  widened to f32 in the load
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "attention-products-i8.h"
#include "attention-products.h"
#include "kv-pool.h"
#include "simd.h"

namespace perigee {

constexpr int kSegmentTokens = 256;
constexpr int kSegmentGroups = kSegmentTokens / kGroupTokens;
// Row stride of the scores. One group longer than a segment, so that the rows of scores do not map
// to the same cache sets.
constexpr int kScoreStride = kSegmentTokens + kGroupTokens;

// Accumulators that fit the register file beside the operands: AVX2 has 16 registers, AVX-512 and
// NEON have 32.
constexpr int kVecsPerGroup = kGroupTokens / kLanes;
constexpr int kSumsMax = kLanes == 8 ? 12 : 24;
constexpr int kRowsMax = kLanes == 16 ? 12 : 6;

// Number of groups that cover the places [0, end).
constexpr int groupsOf(int end) { return (end + kGroupTokens - 1) / kGroupTokens; }

// Pointers to the keys and values of one segment. Groups outside every row's range are not read.
template <typename T>
struct SegmentView {
  int firstPosition;
  int keyStride;                    // between two dims of a key, or two pairs of dims, in elements
  const T* keys[kSegmentGroups];    // per group: key of its first position
  const T* values[kSegmentGroups];  // per group: [16][Dv], or in pairs
  const T* later[kSegmentGroups];   // keys to prefetch: same group, next segment
  // bf16 scales of the group's positions; set only where kScaled<T>.
  const uint16_t* keyScales[kSegmentGroups];
  const uint16_t* valueScales[kSegmentGroups];
};

// Row stride of a tile's scores in Words. Weights overwrite the scores: [R][kScoreStride] floats.
template <typename T>
constexpr int kWordsPerRow =
    kScoreStride * int{sizeof(float)} / int{sizeof(typename Products<T>::Word)};

// Prefetches into L2: L1 does not hold a segment's values beside its keys.
inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 2); }

// Fully unrolls the loops over R, G and C, so that the sums stay in registers.
#define PERIGEE_UNROLL _Pragma("GCC unroll 32")

// scores[r][p] = q[r] . key[p] for G groups; each sum runs over D in order. `query`: [D][R] words.
template <typename T, int R, int G>
void scoreGroups(const SegmentView<T>& view, int group, const typename Products<T>::Word* query,
                 int headDim, float* scores) {
  using P = Products<T>;
  constexpr int kVecs = G * kVecsPerGroup;
  constexpr int kStep = kLanes * kTogether<T>;
  typename P::Sum sums[R * kVecs];
  PERIGEE_UNROLL
  for (int i = 0; i < R * kVecs; ++i) sums[i] = typename P::Sum{};
  const T* keys[G];
  const T* values[G];
  PERIGEE_UNROLL
  for (int g = 0; g < G; ++g) {
    keys[g] = view.keys[group + g];
    values[g] = view.values[group + g];
  }

  for (int d = 0; d < headDim; d += kTogether<T>) {
    typename P::Operand key[kVecs];
    PERIGEE_UNROLL
    for (int g = 0; g < G; ++g) {
      PERIGEE_UNROLL
      for (int v = 0; v < kVecsPerGroup; ++v) {
        key[g * kVecsPerGroup + v] = P::operand(keys[g] + v * kStep);
      }
      keys[g] += view.keyStride;
      prefetch(values[g]);
      values[g] += kGroupTokens * kTogether<T>;
    }
    PERIGEE_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto factor = P::factor(query + r);
      PERIGEE_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        sums[r * kVecs + v] = P::add(sums[r * kVecs + v], factor, key[v]);
      }
    }
    query += R;
  }
  PERIGEE_UNROLL
  for (int i = 0; i < R * kVecs; ++i) {
    const int r = i / kVecs, v = i % kVecs;
    F32 score = P::score(sums[i], query + r);
    if constexpr (kScaled<T>) {
      const uint16_t* const scales = view.keyScales[group + v / kVecsPerGroup];
      score *= loadBf16(scales + v % kVecsPerGroup * kLanes) * kOperandScale<T>;
    }
    store(scores + r * kScoreStride + group * kGroupTokens + v * kLanes, score);
  }
}

// Processes as many groups at a time as the registers allow, then fewer for the rest.
template <typename T, int R, int G = 4>
void scoreRows(const SegmentView<T>& view, const typename Products<T>::Word* query, int headDim,
               int group, int groupEnd, float* scores) {
  if constexpr (G == 1 || R * G * kVecsPerGroup <= kSumsMax) {
    for (; group + G <= groupEnd; group += G) {
      scoreGroups<T, R, G>(view, group, query, headDim, scores);
    }
  }
  if constexpr (G > 1) scoreRows<T, R, G / 2>(view, query, headDim, group, groupEnd, scores);
}

// Places [begin, end) inside a segment.
struct PlaceSpan {
  int begin, end;
  bool empty() const { return begin >= end; }
};

struct ValueSpan {
  PlaceSpan places[2];  // in rising order; either may be empty
  int valueStride;      // Dv
  float* out;           // [R] rows of Dv sums, outStride apart
  int64_t outStride;
  const float* rowScales;  // [R]: factor from integer sums to floats
};

// out[r][C vectors] = sum over p of weights[r][p] * value[p], in order of positions.
template <typename T, int R, int C>
void sumColumns(const SegmentView<T>& view, const typename Products<T>::Word* weights,
                const ValueSpan& span, int column) {
  using P = Products<T>;
  constexpr int kStep = kLanes * kTogether<T>;
  typename P::Sum sums[R * C];
  PERIGEE_UNROLL
  for (int i = 0; i < R * C; ++i) sums[i] = typename P::Sum{};
  const auto addPosition = [&](int position, const T* row, const auto& operandOf) {
    typename P::Operand value[C];
    PERIGEE_UNROLL
    for (int c = 0; c < C; ++c) value[c] = operandOf(row + c * kStep);
    PERIGEE_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto factor = P::factor(weights + r * kWordsPerRow<T> + position / kTogether<T>);
      PERIGEE_UNROLL
      for (int c = 0; c < C; ++c) sums[r * C + c] = P::add(sums[r * C + c], factor, value[c]);
    }
  };
  const auto rowOf = [&](int position) {
    const int offset = position % kGroupTokens / kTogether<T> * kTogether<T>;
    return view.values[position / kGroupTokens] + offset * span.valueStride +
           column * kTogether<T>;
  };

  for (const PlaceSpan& places : span.places) {
    if (places.empty()) continue;

    // If a range begins or ends inside a pair, that pair is added alone with its hidden half
    // zeroed.
    const int begin = (places.begin + kTogether<T> - 1) / kTogether<T> * kTogether<T>;
    const int end = places.end / kTogether<T> * kTogether<T>;
    if (places.begin < begin) {
      addPosition(places.begin, rowOf(places.begin),
                  [](const T* at) { return P::operandPart(at, 1); });
    }
    for (int position = begin; position < end;) {
      const int group = position / kGroupTokens;
      const int stop = std::min(end, (group + 1) * kGroupTokens);
      const T* row = rowOf(position);
      const int64_t passed = (row - view.values[group]) / (kGroupTokens * kTogether<T>);
      const T* later = view.later[group] + passed * view.keyStride;
      for (; position < stop; position += kTogether<T>, row += span.valueStride * kTogether<T>) {
        PERIGEE_UNROLL
        for (int i = 0; i < C * kLanes; i += kGroupTokens) {
          prefetch(later);
          later += view.keyStride;
        }
        addPosition(position, row, [](const T* at) { return P::operand(at); });
      }
    }
    if (begin <= end && end < places.end) {
      addPosition(end, rowOf(end), [](const T* at) { return P::operandPart(at, 0); });
    }
  }

  PERIGEE_UNROLL
  for (int i = 0; i < R * C; ++i) {
    const F32 total = P::total(sums[i], span.rowScales[i / C]);
    store(span.out + i / C * span.outStride + column + i % C * kLanes, total);
  }
}

// Processes as many columns at a time as the registers allow, then fewer for the rest.
template <typename T, int R, int C = 8>
void sumRows(const SegmentView<T>& view, const typename Products<T>::Word* weights,
             const ValueSpan& span, int column = 0) {
  if constexpr (C == 1 || R * C <= kSumsMax) {
    for (; column + C * kLanes <= span.valueStride; column += C * kLanes) {
      sumColumns<T, R, C>(view, weights, span, column);
    }
  }
  if constexpr (C > 1) sumRows<T, R, C / 2>(view, weights, span, column);
}

// The kernels instantiated for one row count; tileKernels lists them for 1 to kRowsMax rows.
template <typename T>
struct TileKernels {
  decltype(&scoreRows<T, 1>) score;
  decltype(&sumRows<T, 1>) sum;
};

template <typename T, size_t... I>
constexpr std::array<TileKernels<T>, sizeof...(I)> tileKernels(std::index_sequence<I...>) {
  return {TileKernels<T>{&scoreRows<T, I + 1>, &sumRows<T, I + 1>}...};
}

}  // namespace perigee
