// Attention of a tile of query rows to a segment of positions.
//
// R rows of a tile · D head dim · Dv = D rounded up to 16
//
// Formula  out[r] = sum over p of softmax(scale * q[r] . key[p])[p] * value[p]
// Order    Positions are cut into segments of kSegmentTokens at fixed places. Inside a segment all
//          scores come first, then one maximum, then weights and one sum over values; segments are
//          merged one after the other. So a row's result is the same bits whatever tile, batch or
//          chunk it is computed in: hidden positions have weight 0, and adding 0 changes nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention-kernels.h"
#include "attention-scales.h"
#include "kv-cache.h"
#include "simd.h"

namespace perigee {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

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
  const void* query;  // [D][R] words of Products<T>, scaled
  const RowSight* sights;
  int begin, end;  // positions that any of its rows sees
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

// One segment's share of one tile, written to `out`.
template <typename T>
void attendSegment(const SegmentView<T>& view, const RowTile& tile, const AttentionShape& shape,
                   float* scores, const RowStates& out) {
  static constexpr auto kKernels = tileKernels<T>(std::make_index_sequence<kRowsMax>());
  using Word = typename Products<T>::Word;
  const auto& kernels = kKernels[static_cast<size_t>(tile.rows - 1)];
  const int begin = std::max(tile.begin - view.firstPosition, 0);
  const int end = std::min(tile.end - view.firstPosition, kSegmentTokens);
  if (begin >= end) return out.clear(tile.rows);

  // Scores of all rows, then weights row by row.
  const WeightSite site = {view.firstPosition, begin / kGroupTokens,
                           (end + kGroupTokens - 1) / kGroupTokens, shape.softcap,
                           Products<T>::kRoundsFactors};
  const auto* const query = static_cast<const Word*>(tile.query);
  kernels.score(view, query, shape.headDim, site.group, site.groupEnd, scores);
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

  // Only positions that some row sees: others may never have been written.
  const ValueSpan span = {begin,        end, shape.valueStride, out.values(0),
                          out.stride(), rowScales};
  kernels.sum(view, reinterpret_cast<const Word*>(scores), span, 0);
}

}  // namespace perigee
