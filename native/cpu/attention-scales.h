// Scales of quantised keys and values, inside attention.
//
// score[p] = (q . k8[p]) * keyScale[p], and sum over p of w[p] * valueScale[p] * v8[p]: neither
// product needs keys or values as they were. Scales that are calibrated for a whole tensor are 1
// here; they go into the scale of scores and into the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attention-kernels.h"
#include "attention-products-i8.h"
#include "simd.h"

namespace perigee {

// The largest of numbers that are not negative, or NaN if there is one: their bits have its order.
inline float largestOf(U32 bits) {
  uint32_t largest = 0;
  for (int lane = 0; lane < kLanes; ++lane) largest = std::max<uint32_t>(largest, bits[lane]);
  return bitCast<float>(largest);
}

// Weights of one row become weight * valueScale, as the words that the kernels multiply with.
// `begin`, `end`: whole groups. Positions of weight 0 may never have been written: theirs stay 0
// whatever their scales are. Returns what a sum over these words has to be multiplied by.
template <typename T>
float scaleWeights(float* weights, const SegmentView<T>& view, int begin, int end) {
  U32 largest = {};
  for (int i = begin; i < end; i += kLanes) {
    const uint16_t* const scales = view.valueScales[i / kGroupTokens] + i % kGroupTokens;
    const F32 weight = load(weights + i);
    const F32 scaled = weight == 0.0f ? F32{} : weight * (loadBf16(scales) * kOperandScale<T>);
    store(weights + i, scaled);
    const U32 bits = bitCast<U32>(scaled);
    largest = bits > largest ? bits : largest;
  }
  if constexpr (!std::is_same_v<T, Q8>) return 1.0f;

  // In place: a half is written where its float, or an earlier one, was read. Below kLeast there is
  // nothing worth keeping, and no number to divide by.
  constexpr float kLeast = 1e-30f;
  const float most = largestOf(largest);
  const float fine = largestFactor(kSegmentTokens) / (most > kLeast ? most : kLeast);
  auto* const halves = reinterpret_cast<int16_t*>(weights);
  for (int i = begin; i < end; i += kLanes) storeFactors(halves + i, load(weights + i) * fine);
  return most / largestFactor(kSegmentTokens);
}

}  // namespace perigee
