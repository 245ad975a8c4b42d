// Scales of quantised keys and values inside attention.
//
// score[p] = (q . k8[p]) * keyScale[p], and out = sum over p of (w[p] * valueScale[p]) * v8[p]. So
// keys and values are never dequantised. With calibrated per-tensor scales the factors here are 1:
// the key scale is part of the softmax scale, and the value scale is applied to the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attention-kernels.h"
#include "attention-products-i8.h"
#include "simd.h"

namespace perigee {

// The largest of non-negative numbers, or NaN if there is one. Their bits, compared as integers,
// have the same order, with NaN above infinity.
inline float largestOf(U32 bits) {
  uint32_t largest = 0;
  for (int lane = 0; lane < kLanes; ++lane) largest = std::max<uint32_t>(largest, bits[lane]);
  return bitCast<float>(largest);
}

// Replaces the weights of one row by weight * valueScale, as kernel words. `begin` and `end` are
// whole groups. A position of weight 0 may never have been written; its product stays 0 whatever
// its scale holds. Returns the factor that the sum over these words must be multiplied by.
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

  // In place: a 16-bit factor is written only where its float, or an earlier one, was already read.
  // The bound kLeast avoids a division by 0; rows of weights below it round to 0.
  constexpr float kLeast = 1e-30f;
  const float most = largestOf(largest);
  const float fine = largestFactor(kSegmentTokens) / (most > kLeast ? most : kLeast);
  auto* const halves = reinterpret_cast<int16_t*>(weights);
  for (int i = begin; i < end; i += kLanes) storeFactors(halves + i, load(weights + i) * fine);
  return most / largestFactor(kSegmentTokens);
}

}  // namespace perigee
