// Activation rows, the left operand of a linear op, in the format of its weights.
//
// C columns · G = ceil(C / 128) quantisation groups
//   f32   C floats, no padding: the rows are a plain [rows, C] tensor
//   bf16  C bf16 values, zero-padded to 64 bytes
//   i8    C signed bytes, zero-padded to 64 bytes · G float scales · G int32 sums of each group's
//         bytes, padded to 64 bytes. Kernels use the sums to correct for the offset that weights
//         are stored with (kWeightOffset in matrix-limits.h).
//   q8    as i8, in groups of 32 columns, but with two sums for each: of its first 16 columns and
//         of the others. Weights of files have scales and minima for as many.
//
// An op fills a row through ActivationWriter:
//   float* values = writer.begin(row, scratch);   // scratch: C floats, private to this thread
//   ... write C floats to values ...
//   writer.finish(row, values);
// or by parts of columns, each with scratch of its own.
#pragma once

#include "params.h"
#include "quantize.h"
#include "simd.h"

namespace perigee {

struct ActivationLayout {
  Format format;
  int64_t columns;

  /// Bytes of the elements, without the scales and sums of an i8 row.
  int64_t elementBytes() const {
    switch (format) {
      case Format::f32: return columns * 4;
      case Format::bf16: return padTo(columns * 2, 64);
      case Format::i8:
      case Format::q8: return padTo(columns, 64);
    }
    return 0;
  }

  /// Row stride in bytes.
  int64_t rowBytes() const {
    if (format == Format::q8) return elementBytes() + padTo(blockCount(columns) * 12, 64);
    if (format != Format::i8) return elementBytes();
    return elementBytes() + padTo(groupCount(columns) * 8, 64);
  }

  const float* scales(const uint8_t* row) const {
    return reinterpret_cast<const float*>(row + elementBytes());
  }

  const int32_t* sums(const uint8_t* row) const {
    return reinterpret_cast<const int32_t*>(scales(row) + groupCount(columns));
  }

  /// q8: two sums of each group.
  const int32_t* blockSums(const uint8_t* row) const {
    return reinterpret_cast<const int32_t*>(scales(row) + blockCount(columns));
  }
};

class ActivationWriter {
 public:
  ActivationWriter(void* rows, Format format, int64_t columns)
      : layout_{format, columns},
        rowBytes_(layout_.rowBytes()),
        elementBytes_(layout_.elementBytes()),
        rows_(static_cast<uint8_t*>(rows)) {}

  /// The buffer that the op writes the row's floats to: the row itself in f32, else `scratch`.
  float* begin(int64_t row, float* scratch) const {
    return layout_.format == Format::f32 ? reinterpret_cast<float*>(at(row)) : scratch;
  }

  /// Converts the floats at `values` into the row. Copies nothing in f32 if `values` is the row
  /// itself.
  void finish(int64_t row, const float* values) const {
    finishPart(row, values, 0, layout_.columns);
  }

  /// The same for columns [begin, end): whole groups of kGroupColumns, but for the row's last.
  /// `values`: of the whole row.
  void finishPart(int64_t row, const float* values, int64_t begin, int64_t end) const {
    switch (layout_.format) {
      case Format::f32: {
        auto* const out = reinterpret_cast<float*>(at(row));
        if (out == values) break;
        std::memcpy(out + begin, values + begin, static_cast<size_t>(end - begin) * sizeof(float));
        break;
      }
      case Format::bf16:
        finishBf16(reinterpret_cast<uint16_t*>(at(row)), values, begin, end);
        break;
      case Format::i8: finishI8(at(row), values, begin, end); break;
      case Format::q8: finishQ8(at(row), values, begin, end); break;
    }
  }

 private:
  uint8_t* at(int64_t row) const { return rows_ + row * rowBytes_; }

  void finishBf16(uint16_t* out, const float* values, int64_t begin, int64_t end) const {
    const int64_t whole = begin + (end - begin) / kLanes * kLanes;
    for (int64_t i = begin; i < whole; i += kLanes) storeBf16(out + i, load(values + i));
    for (int64_t i = whole; i < end; ++i) out[i] = narrowBf16(values[i]);
    pad(reinterpret_cast<uint8_t*>(out), 2, end);
  }

  void finishI8(uint8_t* out, const float* values, int64_t begin, int64_t end) const {
    const int64_t groups = groupCount(layout_.columns);
    auto* const bytes = reinterpret_cast<int8_t*>(out);
    auto* const scales = reinterpret_cast<float*>(out + elementBytes_);
    auto* const sums = reinterpret_cast<int32_t*>(scales + groups);
    for (int64_t group = begin / kGroupColumns; group < groupCount(end); ++group) {
      const int64_t start = group * kGroupColumns;
      const int64_t count = groupEnd(group, layout_.columns) - start;
      scales[group] = quantizeGroup(bytes + start, values + start, count, sums + group);
    }
    pad(out, 1, end);
  }

  void finishQ8(uint8_t* out, const float* values, int64_t begin, int64_t end) const {
    const int64_t blocks = blockCount(layout_.columns);
    auto* const bytes = reinterpret_cast<int8_t*>(out);
    auto* const scales = reinterpret_cast<float*>(out + elementBytes_);
    auto* const sums = reinterpret_cast<int32_t*>(scales + blocks);
    for (int64_t block = begin / kBlockColumns; block < blockCount(end); ++block) {
      const int64_t start = block * kBlockColumns;
      const int64_t left = layout_.columns - start;
      scales[block] = quantizeBlock(bytes + start, values + start,
                                    left < kBlockColumns ? left : kBlockColumns, sums + 2 * block);
    }
    pad(out, 1, end);
  }

  /// Behind the row's last element.
  void pad(uint8_t* out, int64_t bytesPerElement, int64_t end) const {
    if (end < layout_.columns) return;
    const int64_t used = layout_.columns * bytesPerElement;
    std::memset(out + used, 0, static_cast<size_t>(elementBytes_ - used));
  }

  ActivationLayout layout_;
  int64_t rowBytes_;
  int64_t elementBytes_;
  uint8_t* rows_;
};

}  // namespace perigee
