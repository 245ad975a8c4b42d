// A panel of quantised weights whose numbers are bytes and whose scales are floats again, for one
// thread and as long as several tiles of rows use it. Types of the same shape share kernels.
//
//   group    [8][kPanelRows] words of 4 bytes, [scales][kPanelRows] f32, then as many minima where
//            there are. Where signed bytes are widened (kWidensSigned) two words of 16-bit numbers
//            stand for one: columns 0 and 2 of a step, then 1 and 3.
#pragma once

#include "packed-panel.h"

namespace perigee {

/// Words of a row for the numbers of a group.
constexpr int expandedSteps(const PanelShape& shape) {
  return kBlockSteps * (shape.widens() ? 2 : 1);
}

constexpr int64_t expandedGroupWords(const PanelShape& shape) {
  const int scales = shape.scales * (shape.mins ? 2 : 1);
  return (expandedSteps(shape) + scales) * static_cast<int64_t>(kPanelRows);
}

/// Reads one group by group, as PackedSource does.
template <int kLargest, int kScales, bool kMins>
class ExpandedSource {
 public:
  static constexpr PanelShape kShape = {kLargest, kScales, kMins};
  static constexpr bool kWide = kShape.widens();
  static constexpr int kSteps = expandedSteps(kShape);
  /// In the thread's caches: nothing is to be asked for.
  static constexpr int64_t kGroupBytes = 0;

  explicit ExpandedSource(const uint32_t* panel) : at_(panel) {}

  void begin(int64_t group) {
    if (group > 0) at_ += expandedGroupWords(kShape);
  }

  U32 step(int step, int v) const { return words(step, v); }

  F32 scale(int sub, int v) const { return bitCast<F32>(words(kSteps + sub, v)); }

  F32 min(int sub, int v) const { return bitCast<F32>(words(kSteps + kScales + sub, v)); }

 private:
  U32 words(int line, int v) const { return loadWords(at_ + line * kPanelRows + v * kLanes); }

  const uint32_t* at_;
};

/// The source of an expanded panel of a type.
template <BlockType kType>
using ExpandedOf = ExpandedSource<PackedSource<kType>::kShape.largest,
                                  PackedSource<kType>::kShape.scales,
                                  PackedSource<kType>::kShape.mins>;

}  // namespace perigee
