// A panel of quantised weights whose numbers are bytes and whose scales are floats again, for one
// thread and as long as several tiles of rows use it. Types of the same shape share kernels.
//
//   header   one vector of words: the excess of the bytes, which are signed, without any, for a
//            matrix unit
//   group    [8][kPanelRows] words, [scales][kPanelRows] f32, then as many minima where there are
#pragma once

#include "packed-panel.h"

namespace perigee {

/// Words of the header.
constexpr int64_t kExpandedHeader = 16;

constexpr int64_t expandedGroupWords(const PanelShape& shape) {
  return (kBlockSteps + shape.scales * (shape.mins ? 2 : 1)) * static_cast<int64_t>(kPanelRows);
}

/// Reads one group by group, as PackedSource does.
template <int kLargest, int kScales, bool kMins>
class ExpandedSource {
 public:
  static constexpr PanelShape kShape = {kLargest, kScales, kMins};

  explicit ExpandedSource(const uint32_t* panel)
      : zero_(static_cast<int>(panel[0])), at_(panel + kExpandedHeader) {}

  void begin(int64_t group) {
    if (group > 0) at_ += expandedGroupWords(kShape);
  }

  int byteZero() const { return zero_; }

  U32 step(int step, int v) const { return words(step, v); }

  F32 scale(int sub, int v) const { return bitCast<F32>(words(kBlockSteps + sub, v)); }

  F32 min(int sub, int v) const { return bitCast<F32>(words(kBlockSteps + kScales + sub, v)); }

  /// The words of the group.
  const uint32_t* words() const { return at_; }

 private:
  U32 words(int line, int v) const { return loadWords(at_ + line * kPanelRows + v * kLanes); }

  int zero_;
  const uint32_t* at_;
};

/// The source of an expanded panel of a type.
template <BlockType kType>
using ExpandedOf = ExpandedSource<PackedSource<kType>::kShape.largest,
                                  PackedSource<kType>::kShape.scales,
                                  PackedSource<kType>::kShape.mins>;

}  // namespace perigee
