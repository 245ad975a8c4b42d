// Symmetric 8-bit quantisation of a row, in groups of consecutive columns.
//
// scale = max|v| / 127, value = round(v / scale), ties to even. Defined by
// src/devices/reference/quantize.ts. Weights and activations are quantised alike.
#pragma once

#include "matrix-limits.h"
#include "simd.h"

namespace perigee {

/// Columns that share one scale. The last group of a row may be shorter. The size is 128: with 64,
/// applying the scales costs a quarter of the time of the products on AVX-512 instead of an eighth.
constexpr int64_t kGroupColumns = 128;

inline int64_t groupCount(int64_t columns) {
  return (columns + kGroupColumns - 1) / kGroupColumns;
}

/// Groups of q8.
inline int64_t blockCount(int64_t columns) {
  return (columns + kBlockColumns - 1) / kBlockColumns;
}

inline int64_t padTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// End of group `group`: its columns are [group * kGroupColumns, groupEnd).
inline int64_t groupEnd(int64_t group, int64_t columns) {
  const int64_t end = (group + 1) * kGroupColumns;
  return end < columns ? end : columns;
}

inline int lanesLeft(int64_t left) { return left < kLanes ? static_cast<int>(left) : kLanes; }

inline float largestMagnitude(const float* values, int64_t count) {
  F32 largest = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = max(abs(loadFirst(values + i, lanesLeft(count - i))), largest);
  }
  return maxLane(largest);
}

/// The quotients as whole numbers.
inline I32 quantizeLanes(F32 values, F32 divisor) {
  // The clamp only acts for subnormal scales, whose own rounding error is large.
  const F32 quotient = roundEven(values / divisor);
  return toInt(max(min(quotient, broadcast(127.0f)), broadcast(-127.0f)));
}

inline void storeBytes(int8_t* out, I32 whole, int lanes) {
  const I8 bytes = __builtin_convertvector(whole, I8);
  std::memcpy(out, &bytes, static_cast<size_t>(lanes));
}

/// Divides and rounds `count` values into `out`; returns the sum of the integers.
inline int32_t quantizeRun(int8_t* out, const float* values, int64_t count, F32 divisor) {
  I32 sums = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const int lanes = lanesLeft(count - i);
    const I32 whole = quantizeLanes(loadFirst(values + i, lanes), divisor);
    sums += whole;
    storeBytes(out + i, whole, lanes);
  }
  return sum(sums);
}

/// Quantises `count` values of one group into `out`; writes the sum of the integers, returns the
/// scale.
inline float quantizeGroup(int8_t* out, const float* values, int64_t count, int32_t* valueSum) {
  const float scale = largestMagnitude(values, count) / 127.0f;
  *valueSum = quantizeRun(out, values, count, broadcast(scale > 0.0f ? scale : 1.0f));
  return scale;
}

/// A whole group of q8: the sum of the first 16 integers, and of the others; returns the scale.
inline float quantizeWholeBlock(int8_t* out, const float* values, int32_t* halfSums) {
  constexpr int vectors = kBlockColumns / kLanes;
  F32 lanes[vectors], largest = {};
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    lanes[v] = load(values + v * kLanes);
    largest = max(abs(lanes[v]), largest);
  }
  const float scale = maxLane(largest) / 127.0f;
  const F32 divisor = broadcast(scale > 0.0f ? scale : 1.0f);
  I32 sums[2] = {};
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    const I32 whole = quantizeLanes(lanes[v], divisor);
    sums[v / (vectors / 2)] += whole;
    storeBytes(out + v * kLanes, whole, kLanes);
  }
  halfSums[0] = sum(sums[0]);
  halfSums[1] = sum(sums[1]);
  return scale;
}

/// The same for a group of 32 columns or fewer.
inline float quantizeBlock(int8_t* out, const float* values, int64_t count, int32_t* halfSums) {
  if (count == kBlockColumns) return quantizeWholeBlock(out, values, halfSums);
  constexpr int64_t half = kBlockColumns / 2;
  const float scale = largestMagnitude(values, count) / 127.0f;
  const F32 divisor = broadcast(scale > 0.0f ? scale : 1.0f);
  const int64_t first = count < half ? count : half;
  halfSums[0] = quantizeRun(out, values, first, divisor);
  halfSums[1] = quantizeRun(out + first, values + first, count - first, divisor);
  return scale;
}

}  // namespace perigee
