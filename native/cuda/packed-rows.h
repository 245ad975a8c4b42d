// Rows in a weight format: both operands of the linear ops, activations and weight matrices.
//
// C columns · G = ceil(C / 128) groups; a row is 16-byte aligned, except in f32
//   f32   C floats, no padding: the rows are a plain [rows, C] tensor
//   bf16  C bf16 values, then zeros
//   i8    C signed bytes, then zeros · G float scales (src/devices/reference/quantize.ts), zeros
// Repeated by `rowBytes` of src/devices/cuda/memory/handles.ts.
#pragma once

#include "params.h"

namespace perigee {

constexpr int kGroupColumns = 128;
constexpr float kQuantMax = 127.0f;
constexpr int kWarp = 32;
constexpr int kRowAlignment = 16;
/// Columns that a block of kRowThreads threads stores at a time: `ROW_PART` and `ROW_THREADS` of
/// src/devices/cuda/kernels/row-limits.ts.
constexpr int kRowPart = 1024;
constexpr int kRowThreads = 256;

__host__ __device__ constexpr int groupCount(int columns) {
  return (columns + kGroupColumns - 1) / kGroupColumns;
}

/// Byte offset of the scales in an i8 row.
__host__ __device__ constexpr int64_t scaleOffset(int columns) {
  return padTo(columns, kRowAlignment);
}

__host__ __device__ constexpr int64_t packedRowBytes(Format format, int columns) {
  switch (format) {
    case Format::bf16: return padTo(static_cast<int64_t>(columns) * 2, kRowAlignment);
    case Format::i8: return scaleOffset(columns) + padTo(groupCount(columns) * 4, kRowAlignment);
    default: return static_cast<int64_t>(columns) * 4;
  }
}

__device__ __forceinline__ float warpMax(float value) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  return value;
}

/// Packed memory of one matrix or activation.
struct PackedRows {
  uint8_t* memory;
  Format format;
  int columns;

  __device__ uint8_t* row(int64_t index) const {
    return memory + index * packedRowBytes(format, columns);
  }

  /// One element, dequantised.
  __device__ float load(int64_t index, int column) const {
    const uint8_t* const bytes = row(index);
    switch (format) {
      case Format::bf16: return widen(reinterpret_cast<const Bf16*>(bytes)[column]);
      case Format::i8: {
        const float* const scales = reinterpret_cast<const float*>(bytes + scaleOffset(columns));
        const int quantized = reinterpret_cast<const int8_t*>(bytes)[column];
        return static_cast<float>(quantized) * scales[column / kGroupColumns];
      }
      default: return reinterpret_cast<const float*>(bytes)[column];
    }
  }

  /// Rounds a row to the format: `valueAt(column)` for every column. All threads of a block (whole
  /// warps) call it. For i8 another thread calls `valueAt` for a column than in the other formats.
  template <typename ValueAt>
  __device__ void store(int64_t index, const ValueAt& valueAt) const {
    uint8_t* const bytes = row(index);
    switch (format) {
      case Format::bf16: storeBf16(reinterpret_cast<Bf16*>(bytes), valueAt); break;
      case Format::i8: storeI8(bytes, valueAt, 0, groupCount(columns)); break;
      default:
        for (int i = threadIdx.x; i < columns; i += blockDim.x) {
          reinterpret_cast<float*>(bytes)[i] = valueAt(i);
        }
    }
  }

  /// The same for columns part * kRowPart up to the next part; a block has kRowThreads threads.
  template <typename ValueAt>
  __device__ void storePart(int64_t index, int part, const ValueAt& valueAt) const {
    uint8_t* const bytes = row(index);
    const int first = part * kRowPart;
    if (format == Format::i8) {
      const int groups = min(groupCount(columns), (first + kRowPart) / kGroupColumns);
      storeI8(bytes, valueAt, first / kGroupColumns, groups);
      return;
    }
    constexpr int kPerThread = kRowPart / kRowThreads;
    float values[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = first + i * kRowThreads + static_cast<int>(threadIdx.x);
      values[i] = column < columns ? valueAt(column) : 0.0f;
    }
    const bool isBf16 = format == Format::bf16;
    const int end = isBf16 ? static_cast<int>(packedRowBytes(format, columns)) / 2 : columns;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = first + i * kRowThreads + static_cast<int>(threadIdx.x);
      if (column >= end) continue;
      if (isBf16) {
        reinterpret_cast<Bf16*>(bytes)[column] = column < columns ? narrowBf16(values[i]) : Bf16{0};
      } else {
        reinterpret_cast<float*>(bytes)[column] = values[i];
      }
    }
  }

 private:
  template <typename ValueAt>
  __device__ void storeBf16(Bf16* out, const ValueAt& valueAt) const {
    const int padded = static_cast<int>(packedRowBytes(format, columns)) / 2;
    for (int i = threadIdx.x; i < padded; i += blockDim.x) {
      out[i] = i < columns ? narrowBf16(valueAt(i)) : Bf16{0};
    }
  }

  /// One warp per group of 128 columns, four of them per lane: groups [first, end).
  template <typename ValueAt>
  __device__ void storeI8(uint8_t* bytes, const ValueAt& valueAt, int first, int end) const {
    constexpr int kPerLane = kGroupColumns / kWarp;
    const int lane = threadIdx.x % kWarp;
    int8_t* const out = reinterpret_cast<int8_t*>(bytes);
    float* const scales = reinterpret_cast<float*>(bytes + scaleOffset(columns));

    for (int group = first + threadIdx.x / kWarp; group < end; group += blockDim.x / kWarp) {
      float values[kPerLane];
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int column = group * kGroupColumns + i * kWarp + lane;
        values[i] = column < columns ? valueAt(column) : 0.0f;
        largest = fmaxf(largest, fabsf(values[i]));
      }

      // The same rounding as in the definition: f32 divisions, ties to even.
      const float scale = __fdiv_rn(warpMax(largest), kQuantMax);
      if (lane == 0) scales[group] = scale;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int column = group * kGroupColumns + i * kWarp + lane;
        const float quantized = scale == 0.0f ? 0.0f : rintf(__fdiv_rn(values[i], scale));
        if (column < scaleOffset(columns)) {
          out[column] = static_cast<int8_t>(fminf(fmaxf(quantized, -kQuantMax), kQuantMax));
        }
      }
    }
  }
};

}  // namespace perigee
