// Attention of a tile of query rows to a segment of positions.
//
// R rows of a tile · D head dim · Dv = D rounded up to 16
//
// Formula  out[r] = sum over p of softmax(scale * q[r] . key[p])[p] * value[p]
// Order    Positions are cut into segments of kSegmentTokens at fixed places. Inside a segment all
//          scores come first, then one maximum, then weights and one sum over values; segments are
//          merged one after the other. So a row's result is the same bits whatever tile, batch or
//          chunk it is computed in: hidden positions have weight 0, and adding 0 changes nothing.
// Sinks    The first positions of a sequence, seen beside a window, are scored by queries of their
//          own. What lies between sinks and window may be anybody's: it is never read.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention-kernels.h"
#include "attention-scales.h"
#include "kv-pool.h"
#include "simd.h"

namespace perigee {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Which positions a row sees: p < sinkEnd, and begin <= p < end, but from treeStart on only where
// its bit is set.
struct RowSight {
  int sinkEnd;
  int begin, end;
  int treeStart;
  const uint32_t* treeBits;  // null: no tree

  bool sees(int position) const {
    if (position < sinkEnd) return true;
    if (position < begin || position >= end) return false;
    if (treeBits == nullptr || position < treeStart) return true;
    const int bit = position - treeStart;
    return (treeBits[bit / 32] >> (bit % 32)) & 1;
  }
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
  int64_t stride() const { return stride_; }

  void clear(int rows) const {
    std::fill_n(memory_, int64_t{rows} * stride_, 0.0f);
    for (int row = 0; row < rows; ++row) max(row) = kHidden;
  }

 private:
  float* memory_;
  int stride_;
};

struct RowTile {
  int rows;
  const void* query;      // [D][R] words of Products<T>, scaled
  const void* sinkQuery;  // the same for positions below sinkEnd
  const RowSight* sights;
  int sinkEnd;     // sinks that any of its rows sees
  int begin, end;  // other positions that any of its rows sees
};

struct AttentionShape {
  int headDim, valueStride;
  float softcap;  // 0: none
};

struct WeightSite {
  int firstPosition;    // of the segment
  int group, groupEnd;  // groups that were scored
  float softcap;
  bool halves;  // weights are kept as bf16, from the start of the row on
};

// Scores of one row become weights relative to their maximum; returns maximum and sum.
std::pair<float, float> weightsInPlace(float* scores, const RowSight& sight,
                                       const WeightSite& site);

// into = into merged with part, row by row.
void mergeStates(const RowStates& into, const RowStates& part, int rows, int valueStride);

// out = valueScale * values / sum; zeros where a row saw nothing. `out` is [D].
void finishRow(float* out, const RowStates& states, int row, int headDim, float valueScale);

// What of [begin, end) lies in the segment.
inline PlaceSpan placesOf(int firstPosition, int begin, int end) {
  return {std::max(begin - firstPosition, 0), std::min(end - firstPosition, kSegmentTokens)};
}

// Scores of places by the tile's queries.
template <typename T, typename Kernels>
void scoreTile(const Kernels& kernels, const SegmentView<T>& view, const RowTile& tile,
               const AttentionShape& shape, PlaceSpan sinks, PlaceSpan window, float* scores) {
  using Word = typename Products<T>::Word;
  const auto score = [&](const void* query, int group, int groupEnd) {
    kernels.score(view, static_cast<const Word*>(query), shape.headDim, group, groupEnd, scores);
  };
  if (sinks.empty()) return score(tile.query, window.begin / kGroupTokens, groupsOf(window.end));
  if (window.empty()) return score(tile.sinkQuery, 0, groupsOf(sinks.end));

  // The sinks' last group may hold positions of the window, too: their scores are put back.
  const int last = sinks.end / kGroupTokens;
  float kept[kRowsMax][kGroupTokens];
  const auto scoresOf = [&](int row) { return scores + row * kScoreStride + last * kGroupTokens; };
  score(tile.query, std::max(window.begin / kGroupTokens, last), groupsOf(window.end));
  for (int row = 0; row < tile.rows; ++row) std::copy_n(scoresOf(row), kGroupTokens, kept[row]);
  score(tile.sinkQuery, 0, groupsOf(sinks.end));
  const int first = sinks.end % kGroupTokens;
  if (first == 0) return;
  for (int row = 0; row < tile.rows; ++row) {
    std::copy(kept[row] + first, kept[row] + kGroupTokens, scoresOf(row) + first);
  }
}

// One segment's share of one tile, written to `out`.
template <typename T>
void attendSegment(const SegmentView<T>& view, const RowTile& tile, const AttentionShape& shape,
                   float* scores, const RowStates& out) {
  static constexpr auto kKernels = tileKernels<T>(std::make_index_sequence<kRowsMax>());
  using Word = typename Products<T>::Word;
  const auto& kernels = kKernels[static_cast<size_t>(tile.rows - 1)];
  const PlaceSpan sinks = placesOf(view.firstPosition, 0, tile.sinkEnd);
  const PlaceSpan window = placesOf(view.firstPosition, tile.begin, tile.end);
  if (sinks.empty() && window.empty()) return out.clear(tile.rows);

  // Scores of all rows, then weights row by row. Groups between sinks and window are not scored,
  // but hidden like all that a row does not see.
  scoreTile<T>(kernels, view, tile, shape, sinks, window, scores);
  const int begin = sinks.empty() ? window.begin : 0;
  const int end = window.empty() ? sinks.end : std::max(sinks.end, window.end);
  const WeightSite site = {view.firstPosition, begin / kGroupTokens, groupsOf(end), shape.softcap,
                           Products<T>::kRoundsFactors};
  float rowScales[kRowsMax];
  for (int row = 0; row < tile.rows; ++row) {
    float* const ofRow = scores + row * kScoreStride;
    const auto [max, sum] = weightsInPlace(ofRow, tile.sights[row], site);
    out.max(row) = max;
    out.sum(row) = sum;
    rowScales[row] = 1.0f;
    if constexpr (kScaled<T>) {
      const int from = site.group * kGroupTokens, to = site.groupEnd * kGroupTokens;
      rowScales[row] = scaleWeights(ofRow, view, from, to);
    }
  }

  // Only positions that some row sees: others may never have been written. Where sinks and window
  // meet they are one span, so that no pair is summed in two steps.
  const bool meet = sinks.end >= window.begin;
  const PlaceSpan all = {begin, end}, none = {0, 0};
  const ValueSpan span = {{meet ? all : sinks, meet ? none : window},
                          shape.valueStride,
                          out.values(0),
                          out.stride(),
                          rowScales};
  kernels.sum(view, reinterpret_cast<const Word*>(scores), span, 0);
}

}  // namespace perigee
