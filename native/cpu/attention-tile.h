// Attention of a tile of query rows to one segment of positions.
//
// R rows of a tile · D head dim · Dv = D rounded up to 16
//
//    positions    0        256       512       768
//    rows 0..R-1  | segment | segment | segment |       scores -> max -> weights, sum -> out
//                      |         |         |            (per segment)
//                      +-> merge +-> merge +-> softmax result, always in this order
//
// Formula  out[r] = sum over p of softmax(scale * q[r] . key[p])[p] * value[p]
// Order    Segments of kSegmentTokens positions begin at fixed positions. Inside a segment all
//          scores are computed first, then one maximum, then the weights and one sum over values.
//          Segments are merged in rising order. So a row's result has the same bits whatever tile,
//          batch or chunk it is computed in: masked positions have weight 0, and adding 0 changes
//          nothing.
// Sinks    The attention sinks, the first positions of a sequence, stay visible beside a window.
//          They are scored by queries of their own. Blocks between sinks and window may have been
//          given to other sequences; they are never read.
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

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Attention mask of a row: it sees positions p < sinkEnd, and begin <= p < end, but in a token
// tree, treeStart <= p < treeEnd, only those whose bit in `hidden` is not set.
struct RowMask {
  int sinkEnd;
  int begin, end;
  int treeStart, treeEnd;
  const uint32_t* hidden;  // null: no tree

  bool sees(int position) const {
    if (position < sinkEnd) return true;
    if (position < begin || position >= end) return false;
    if (hidden == nullptr || position < treeStart || position >= treeEnd) return true;
    const int bit = position - treeStart;
    return ((hidden[bit / 32] >> (bit % 32)) & 1) == 0;
  }
};

// Online softmax state of some rows: sums of weighted values, relative to the running maximum.
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
    for (int row = 0; row < rows; ++row) max(row) = kMasked;
  }

 private:
  float* memory_;
  int stride_;
};

struct RowTile {
  int rows;
  const void* query;      // [D][R] words of Products<T>, scaled
  const void* sinkQuery;  // the same for positions below sinkEnd
  const RowMask* masks;
  int sinkEnd;     // end of the sinks that any of its rows sees
  int begin, end;  // range of the other positions that any of its rows sees
};

struct AttentionShape {
  int headDim, valueStride;
  float softcap;  // 0: none
};

struct WeightSite {
  int firstPosition;    // of the segment
  int group, groupEnd;  // range of groups that were scored
  float softcap;
  bool halves;  // weights are stored as bf16, from the start of the row on
};

// Replaces one row's scores by weights relative to their maximum; returns maximum and sum.
std::pair<float, float> weightsInPlace(float* scores, const RowMask& mask, const WeightSite& site);

// into = online softmax merge of into and part, row by row.
void mergeStates(const RowStates& into, const RowStates& part, int rows, int valueStride);

// out = valueScale * values / sum, or zeros for a row that sees nothing. `out` is [D].
void finishRow(float* out, const RowStates& states, int row, int headDim, float valueScale);

// The intersection of [begin, end) with the segment.
inline PlaceSpan placesOf(int firstPosition, int begin, int end) {
  return {std::max(begin - firstPosition, 0), std::min(end - firstPosition, kSegmentTokens)};
}

// Scores of the tile's queries for the given places.
template <typename T, typename Kernels>
void scoreTile(const Kernels& kernels, const SegmentView<T>& view, const RowTile& tile,
               const AttentionShape& shape, PlaceSpan sinks, PlaceSpan window, float* scores) {
  using Word = typename Products<T>::Word;
  const auto score = [&](const void* query, int group, int groupEnd) {
    kernels.score(view, static_cast<const Word*>(query), shape.headDim, group, groupEnd, scores);
  };
  if (sinks.empty()) return score(tile.query, window.begin / kGroupTokens, groupsOf(window.end));
  if (window.empty()) return score(tile.sinkQuery, 0, groupsOf(sinks.end));

  // The last group of the sinks may also hold window positions. Sink scores overwrite that group,
  // so the window's scores are saved first and restored.
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

// Attention of one tile to one segment; `out` receives maximum, sum and weighted values.
template <typename T>
void attendSegment(const SegmentView<T>& view, const RowTile& tile, const AttentionShape& shape,
                   float* scores, const RowStates& out) {
  static constexpr auto kKernels = tileKernels<T>(std::make_index_sequence<kRowsMax>());
  using Word = typename Products<T>::Word;
  const auto& kernels = kKernels[static_cast<size_t>(tile.rows - 1)];
  const PlaceSpan sinks = placesOf(view.firstPosition, 0, tile.sinkEnd);
  const PlaceSpan window = placesOf(view.firstPosition, tile.begin, tile.end);
  if (sinks.empty() && window.empty()) return out.clear(tile.rows);

  // All scores first, then weights row by row. Groups between sinks and window are not scored, but
  // masked like all positions that a row does not see.
  scoreTile<T>(kernels, view, tile, shape, sinks, window, scores);
  const int begin = sinks.empty() ? window.begin : 0;
  const int end = window.empty() ? sinks.end : std::max(sinks.end, window.end);
  const WeightSite site = {view.firstPosition, begin / kGroupTokens, groupsOf(end), shape.softcap,
                           Products<T>::kRoundsFactors};
  float rowScales[kRowsMax];
  for (int row = 0; row < tile.rows; ++row) {
    float* const ofRow = scores + row * kScoreStride;
    const auto [max, sum] = weightsInPlace(ofRow, tile.masks[row], site);
    out.max(row) = max;
    out.sum(row) = sum;
    rowScales[row] = 1.0f;
    if constexpr (kScaled<T>) {
      const int from = site.group * kGroupTokens, to = site.groupEnd * kGroupTokens;
      rowScales[row] = scaleWeights(ofRow, view, from, to);
    }
  }

  // Only positions visible to some row are summed: others may never have been written. Where sinks
  // and window meet they form one range, so that no pair is split.
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
