// How a weight matrix [N, K] lies in memory.
//
// N rows (outputs) · K columns (inputs)
//
// Rows are cut into panels of kPanelRows, and a panel is stored in the order a kernel reads it: one
// step holds one 32-bit word of every row: 1 column of f32, 2 of bf16, 4 of i8. So one pass over a
// panel is one linear stream, and every word of a vector belongs to another output.
//
//   f32, bf16   [panels][steps][kPanelRows] words
//   i8          [panels][groups] ( [steps of the group][kPanelRows] words, [kPanelRows] scales )
//
// Words behind the last column and rows behind the last row are 0; i8 bytes are stored plus
// kWeightOffset. Whole panels are padded, never split over threads.
#pragma once

#include "params.h"
#include "quantize.h"
#include "simd.h"

namespace perigee {

// With 32 registers, 4 x 128 bits or 2 x 512 bits of a panel and 12 or 6 rows of activations fill
// them; 16 registers of AVX2 hold 2 vectors of 6 rows.
#if defined(__ARM_NEON)
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif
constexpr int kPanelRows = kPanelVectors * kLanes;

// vpdpbusd multiplies unsigned by signed bytes: weights are shifted into the unsigned range, and
// what that adds (128 times the sum of the activations) is taken off again.
#if defined(__AVX512F__)
constexpr int kWeightOffset = 128;
#else
constexpr int kWeightOffset = 0;
#endif

struct MatrixLayout {
  Format format;
  int64_t rows;
  int64_t columns;

  int64_t columnsPerStep() const {
    return format == Format::f32 ? 1 : format == Format::bf16 ? 2 : 4;
  }

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }

  /// Steps that hold columns [0, end).
  int64_t steps(int64_t end) const { return (end + columnsPerStep() - 1) / columnsPerStep(); }

  int64_t panelWords() const {
    const int64_t scales = format == Format::i8 ? groupCount(columns) : 0;
    return (steps(columns) + scales) * kPanelRows;
  }

  int64_t bytes() const { return panels() * panelWords() * 4; }

  /// Word of `step` in a panel: its first row's. In i8, the scales of every group before it.
  int64_t wordOf(int64_t step) const {
    const int64_t scales = format == Format::i8 ? step * 4 / kGroupColumns : 0;
    return (step + scales) * kPanelRows;
  }

  /// Word of a group's scales in a panel (i8).
  int64_t wordOfScales(int64_t group) const {
    return (steps(groupEnd(group, columns)) + group) * kPanelRows;
  }
};

/// Reads single rows back: the embedding table is the output matrix of many models.
class MatrixReader {
 public:
  MatrixReader(const void* matrix, MatrixLayout layout)
      : layout_(layout), words_(static_cast<const uint32_t*>(matrix)) {}

  /// Writes the row as the floats it stands for, K of them.
  void read(int64_t row, float* out) const {
    const uint32_t* const panel = words_ + row / kPanelRows * layout_.panelWords();
    const int64_t lane = row % kPanelRows;
    switch (layout_.format) {
      case Format::f32: readF32(panel + lane, out); break;
      case Format::bf16: readBf16(panel + lane, out); break;
      case Format::i8: readI8(panel + lane, out); break;
    }
  }

 private:
  void readF32(const uint32_t* words, float* out) const {
    for (int64_t column = 0; column < layout_.columns; ++column) {
      out[column] = bitCast<float>(words[column * kPanelRows]);
    }
  }

  void readBf16(const uint32_t* words, float* out) const {
    for (int64_t column = 0; column < layout_.columns; ++column) {
      const uint32_t pair = words[column / 2 * kPanelRows];
      out[column] = bitCast<float>(column % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    }
  }

  void readI8(const uint32_t* words, float* out) const {
    for (int64_t column = 0; column < layout_.columns; ++column) {
      const uint32_t word = words[layout_.wordOf(column / 4)];
      const auto byte = static_cast<uint8_t>(word >> (column % 4 * 8));
      const int value = kWeightOffset > 0 ? byte - kWeightOffset : static_cast<int8_t>(byte);
      const int64_t group = column / kGroupColumns;
      out[column] = static_cast<float>(value) * bitCast<float>(words[layout_.wordOfScales(group)]);
    }
  }

  MatrixLayout layout_;
  const uint32_t* words_;
};

}  // namespace perigee
