// Attention of a tile of query rows to a segment of positions: what paged and encoder attention share.
//
// R rows of a tile · D head dim · Dv = D rounded up to 16 · C vectors of Dv
//
// Formula  out[r] = sum over p of softmax(scale * q[r] . key[p])[p] * value[p]
// Order    Positions are cut into segments of kSegmentTokens at fixed places. Inside a segment all
//          scores come first, then one maximum, then weights and one sum over values; segments are
//          merged one after the other. So a row's result is the same bits whatever tile, batch or
//          chunk it is computed in: hidden positions have weight 0, and adding 0 changes nothing.
// Bound    Compute at prefill: a key or value vector is loaded once for R rows held in registers.
//          Memory at decode: each key and value is read once for all query heads of its kv head.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kv-cache.h"
#include "simd.h"

namespace perigee {

constexpr int kSegmentTokens = 256;
constexpr int kSegmentGroups = kSegmentTokens / kGroupTokens;
// Longer than a segment, so that rows of scores do not fall into the same cache sets.
constexpr int kScoreStride = kSegmentTokens + kGroupTokens;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Accumulators that fit the registers beside the operands: AVX2 has 16 registers, the others 32.
constexpr int kVecsPerGroup = kGroupTokens / kLanes;
constexpr int kAccumulators = kLanes == 8 ? 12 : 24;
constexpr int kRowsMax = kLanes == 16 ? 12 : 6;

constexpr int groupsAtOnce(int rows) {
  const int fit = kAccumulators / (rows * kVecsPerGroup);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}
constexpr int columnVecsAtOnce(int rows) {
  const int fit = kAccumulators / rows;
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// Which positions a row sees: begin <= p < end, and from treeStart on only where its bit is set.
struct RowSight {
  int begin, end;
  int treeStart;
  const uint32_t* treeBits;  // null: no tree

  bool sees(int position) const {
    if (position < begin || position >= end) return false;
    if (treeBits == nullptr || position < treeStart) return true;
    const int bit = position - treeStart;
    return (treeBits[bit / 32] >> (bit % 32)) & 1;
  }
};

// Keys and values of one segment. Groups that no row sees are never touched.
template <typename T>
struct SegmentView {
  int firstPosition;
  int keyStride;                          // positions between two dims of a key
  const T* keys[kSegmentGroups];    // [D][keyStride], 16 positions of each are ours
  const T* values[kSegmentGroups];  // [16][Dv]
  const T* later[kSegmentGroups];   // keys that will be wanted next
};

// Softmax so far of some rows: sums of weighted values, with the maximum they are relative to.
class RowStates {
 public:
  RowStates(float* memory, int valueStride) : memory_(memory), stride_(floatsPerRow(valueStride)) {}
  static constexpr int floatsPerRow(int valueStride) { return valueStride + kGroupTokens; }

  float& max(int row) const { return memory_[int64_t{row} * stride_]; }
  float& sum(int row) const { return memory_[int64_t{row} * stride_ + 1]; }
  // [Dv].
  float* values(int row) const { return memory_ + int64_t{row} * stride_ + kGroupTokens; }
  RowStates from(int row) const {
    return RowStates(memory_ + int64_t{row} * stride_, stride_ - kGroupTokens);
  }

  void clear(int rows) const {
    std::memset(memory_, 0, sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(stride_));
    for (int row = 0; row < rows; ++row) max(row) = kHidden;
  }

 private:
  float* memory_;
  int stride_;
};

struct RowTile {
  int rows;
  const float* query;  // [D][R], scaled
  const RowSight* sights;
  int begin, end;  // positions that any of its rows sees
};

struct AttentionShape {
  int headDim, valueStride;
  float softcap;  // 0: none
};

// Into L2: a segment's values do not fit L1 beside its keys.
inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 2); }

// Loops over R, G and C are unrolled to their end, so that the sums stay in registers.
#define PERIGEE_UNROLL _Pragma("GCC unroll 32")

// scores[r][p] = q[r] . key[p] for G groups, summed over D in order.
template <typename T, int R, int G>
void scoreGroups(const SegmentView<T>& view, int group, const float* query, int headDim,
                 float* scores) {
  constexpr int kVecs = G * kVecsPerGroup;
  F32 sums[R][kVecs];
  PERIGEE_UNROLL
  for (int i = 0; i < R * kVecs; ++i) sums[i / kVecs][i % kVecs] = F32{};
  const T* keys[G];
  const T* values[G];
  PERIGEE_UNROLL
  for (int g = 0; g < G; ++g) {
    keys[g] = view.keys[group + g];
    values[g] = view.values[group + g];
  }

  for (int d = 0; d < headDim; ++d) {
    PERIGEE_UNROLL
    for (int g = 0; g < G; ++g) prefetch(values[g] + int64_t{d} * kGroupTokens);
    F32 key[kVecs];
    PERIGEE_UNROLL
    for (int v = 0; v < kVecs; ++v) {
      key[v] = widen(keys[v / kVecsPerGroup] + (v % kVecsPerGroup) * kLanes);
    }
    PERIGEE_UNROLL
    for (int g = 0; g < G; ++g) keys[g] += view.keyStride;
    PERIGEE_UNROLL
    for (int r = 0; r < R; ++r) {
      const F32 q = broadcast(query[r]);
      PERIGEE_UNROLL
      for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(q, key[v], sums[r][v]);
    }
    query += R;
  }
  PERIGEE_UNROLL
  for (int i = 0; i < R * kVecs; ++i) {
    const int r = i / kVecs, v = i % kVecs;
    store(scores + r * kScoreStride + group * kGroupTokens + v * kLanes, sums[r][v]);
  }
}

template <typename T, int R>
void scoreRows(const SegmentView<T>& view, const RowTile& tile, int headDim, int group,
               int groupEnd, float* scores) {
  constexpr int kGroups = groupsAtOnce(R);
  for (; group + kGroups <= groupEnd; group += kGroups) {
    scoreGroups<T, R, kGroups>(view, group, tile.query, headDim, scores);
  }
  for (; group < groupEnd; ++group) {
    scoreGroups<T, R, 1>(view, group, tile.query, headDim, scores);
  }
}

// sums[r][C vectors] = sum over positions, in order, of weights[r][p] * value[p].
template <typename T, int R, int C>
void sumColumns(const SegmentView<T>& view, const float* weights, int begin, int end,
                int valueStride, int column, const RowStates& out) {
  F32 sums[R][C];
  PERIGEE_UNROLL
  for (int i = 0; i < R * C; ++i) sums[i / C][i % C] = F32{};
  for (int position = begin; position < end;) {
    const int group = position / kGroupTokens;
    const int stop = std::min(end, (group + 1) * kGroupTokens);
    const int offset = (position % kGroupTokens) * valueStride + column;
    const T* row = view.values[group] + offset;
    const T* later = view.later[group] + int64_t{offset} / kGroupTokens * view.keyStride;
    for (; position < stop; ++position, row += valueStride) {
      PERIGEE_UNROLL
      for (int i = 0; i < C * kLanes; i += kGroupTokens) {
        prefetch(later);
        later += view.keyStride;
      }
      F32 value[C];
      PERIGEE_UNROLL
      for (int c = 0; c < C; ++c) value[c] = widen(row + c * kLanes);
      PERIGEE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F32 weight = broadcast(weights[r * kScoreStride + position]);
        PERIGEE_UNROLL
        for (int c = 0; c < C; ++c) sums[r][c] = fma(weight, value[c], sums[r][c]);
      }
    }
  }
  PERIGEE_UNROLL
  for (int i = 0; i < R * C; ++i) {
    store(out.values(i / C) + column + i % C * kLanes, sums[i / C][i % C]);
  }
}

template <typename T, int R>
void sumRows(const SegmentView<T>& view, const float* weights, int begin, int end,
             int valueStride, const RowStates& out) {
  constexpr int kVecs = columnVecsAtOnce(R);
  int column = 0;
  for (; column + kVecs * kLanes <= valueStride; column += kVecs * kLanes) {
    sumColumns<T, R, kVecs>(view, weights, begin, end, valueStride, column, out);
  }
  for (; column < valueStride; column += kLanes) {
    sumColumns<T, R, 1>(view, weights, begin, end, valueStride, column, out);
  }
}

// The kernels of every row count.
template <typename T>
struct TileKernels {
  decltype(&scoreRows<T, 1>) score;
  decltype(&sumRows<T, 1>) sum;
};

template <typename T, size_t... I>
constexpr std::array<TileKernels<T>, sizeof...(I)> tileKernels(std::index_sequence<I...>) {
  return {TileKernels<T>{&scoreRows<T, I + 1>, &sumRows<T, I + 1>}...};
}

// Scores of one row become weights relative to their maximum; returns maximum and sum.
std::pair<float, float> weightsInPlace(float* scores, const RowSight& sight, int firstPosition,
                                       int group, int groupEnd, float softcap);

// into = into merged with part, row by row.
void mergeStates(const RowStates& into, const RowStates& part, int rows, int valueStride);

// out[r] = values / sum; zeros where a row saw nothing. Rows of `out` are [D].
void finishRow(float* out, const RowStates& states, int row, int headDim);

// One segment's share of one tile, written to `out`.
template <typename T>
void attendSegment(const SegmentView<T>& view, const RowTile& tile,
                   const AttentionShape& shape, float* scores, const RowStates& out) {
  static constexpr auto kKernels = tileKernels<T>(std::make_index_sequence<kRowsMax>());
  const int begin = std::max(tile.begin - view.firstPosition, 0);
  const int end = std::min(tile.end - view.firstPosition, kSegmentTokens);
  if (begin >= end) return out.clear(tile.rows);
  const int group = begin / kGroupTokens;
  const int groupEnd = (end + kGroupTokens - 1) / kGroupTokens;

  // Scores of all rows, then weights row by row.
  kKernels[tile.rows - 1].score(view, tile, shape.headDim, group, groupEnd, scores);
  for (int row = 0; row < tile.rows; ++row) {
    const auto [max, sum] = weightsInPlace(scores + row * kScoreStride, tile.sights[row],
                                           view.firstPosition, group, groupEnd, shape.softcap);
    out.max(row) = max;
    out.sum(row) = sum;
  }

  // Only positions that some row sees: others may never have been written.
  kKernels[tile.rows - 1].sum(view, scores, begin, end, shape.valueStride, out);
}

}  // namespace perigee
