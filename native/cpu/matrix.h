// Packed layout of a weight matrix [N, K].
//
// N rows (outputs) · K columns (inputs)
//
//         K columns                        memory of one panel
//       +-----------+
//    p0 | row 0..31 |  kPanelRows rows     step 0: word of row 0, row 1, ... row kPanelRows - 1
//       +-----------+                      step 1: word of row 0, row 1, ...
//    p1 |           |                      ...     (32 rows with AVX-512; a word is 32 bits)
//       +-----------+
//
// Rows are grouped into panels of kPanelRows. A panel is stored in the order in which the kernel
// reads it: a K step holds one 32-bit word of every row, which is 1 column of f32, 2 of bf16 or 4
// of i8. So a pass over a panel is one linear stream, and each lane of a vector belongs to another
// output.
//
//   f32, bf16   [panels][steps][kPanelRows] words
//   i8          [panels][groups] ( [steps of the group][kPanelRows] words, [kPanelRows] scales )
//   q8          packed-panel.h; a matrix begins with a list of segments of rows, which have a type
//               of blocks each (packed-matrix.h)
//
// Words beyond the last column and rows beyond the last row are 0. i8 bytes are stored plus
// kWeightOffset. Incomplete panels are padded. A panel is never split between threads.
#pragma once

#include "matrix-limits.h"
#include "packed-panel.h"
#include "params.h"
#include "quantize.h"
#include "simd.h"

namespace perigee {

struct MatrixLayout {
  Format format;
  int64_t rows;
  int64_t columns;
  BlockType type = BlockType::q8_0;  // q8 only, where this is the layout of a segment

  int64_t columnsPerStep() const {
    return format == Format::f32 ? 1 : format == Format::bf16 ? 2 : 4;
  }

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }

  /// Number of steps that cover columns [0, end).
  int64_t steps(int64_t end) const { return (end + columnsPerStep() - 1) / columnsPerStep(); }

  int64_t panelWords() const {
    if (format == Format::q8) return packedPanelBytes(traitsOf(type), columns) / 4;
    const int64_t scales = format == Format::i8 ? groupCount(columns) : 0;
    return (steps(columns) + scales) * kPanelRows;
  }

  int64_t bytes() const { return panels() * panelWords() * 4; }

  /// Index of the first word of `step` in a panel. In i8 the scales of all earlier groups precede
  /// it.
  int64_t wordOf(int64_t step) const {
    const int64_t scales = format == Format::i8 ? step * 4 / kGroupColumns : 0;
    return (step + scales) * kPanelRows;
  }

  /// Index of the first scale of a group in a panel (i8).
  int64_t wordOfScales(int64_t group) const {
    return (steps(groupEnd(group, columns)) + group) * kPanelRows;
  }
};

/// Unpacks single rows: with tied embeddings the output matrix is also the embedding table.
class MatrixReader {
 public:
  MatrixReader(const void* matrix, MatrixLayout layout)
      : layout_(layout), words_(static_cast<const uint32_t*>(matrix)) {}

  /// Writes the row dequantised to K floats.
  void read(int64_t row, float* out) const {
    const uint32_t* const panel = words_ + row / kPanelRows * layout_.panelWords();
    const int64_t lane = row % kPanelRows;
    switch (layout_.format) {
      case Format::f32: readF32(panel + lane, out); break;
      case Format::bf16: readBf16(panel + lane, out); break;
      case Format::i8: readI8(panel + lane, out); break;
      case Format::q8: readQ8(panel, lane, out); break;
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

  void readQ8(const uint32_t* panel, int64_t lane, float* out) const {
    withBlockType(layout_.type, [&](auto type) {
      PackedSource<type()> weights(panel);
      const auto v = static_cast<int>(lane / kLanes), at = static_cast<int>(lane % kLanes);
      for (int64_t column = 0; column < layout_.columns; column += kBlockColumns) {
        weights.begin(column / kBlockColumns);
        readGroup(weights, v, at, out + column, layout_.columns - column);
      }
    });
  }

  template <typename Source>
  static void readGroup(const Source& weights, int v, int lane, float* out, int64_t columns) {
    constexpr BlockTraits traits = Source::kTraits;
    for (int step = 0; step < kBlockSteps; ++step) {
      const int sub = step * 4 / traits.scaleColumns;
      const float scale = weights.scale(sub, v)[lane];
      float min = 0.0f;
      if constexpr (traits.mins) min = weights.min(sub, v)[lane];
      const uint32_t word = weights.step(step, v)[lane];
      for (int byte = 0; byte < 4 && step * 4 + byte < columns; ++byte) {
        const auto bits = static_cast<uint8_t>(word >> (8 * byte));
        const int number = traits.isSigned() && kWeightOffset == 0
                               ? static_cast<int8_t>(bits)
                               : bits - traits.byteZero();
        out[step * 4 + byte] = scale * static_cast<float>(number) + min;
      }
    }
  }

  MatrixLayout layout_;
  const uint32_t* words_;
};

}  // namespace perigee
