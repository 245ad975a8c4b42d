// A matrix in the q8 format: rows of one or several types of blocks, one segment behind the other.
// Stacked matrices (q, k, v) of a file may differ in type.
//
//   256 bytes of header: [segments], then type, first row, rows and start of each
//   the panels of each segment (packed-panel.h), at a multiple of 64 bytes
//
// A panel belongs to one segment, so each begins with a panel of its own.
#pragma once

#include "matrix.h"

namespace perigee {

struct PackedSegment {
  int64_t type;
  int64_t firstRow;
  int64_t rows;
  int64_t startBytes;  // from the header

  MatrixLayout layout(int64_t columns) const {
    return {Format::q8, rows, columns, static_cast<BlockType>(type)};
  }
};

constexpr int kSegmentsMax = 7;

struct PackedHeader {
  int64_t segments;
  PackedSegment at[kSegmentsMax];

  const uint32_t* panels(const PackedSegment& segment) const {
    return reinterpret_cast<const uint32_t*>(reinterpret_cast<const uint8_t*>(this) +
                                             segment.startBytes);
  }

  /// The segment that has this row.
  const PackedSegment& of(int64_t row) const {
    int64_t index = segments - 1;
    while (index > 0 && at[index].firstRow > row) --index;
    return at[index];
  }
};

constexpr int64_t kPackedHeaderBytes = 256;
static_assert(sizeof(PackedHeader) <= kPackedHeaderBytes, "the header has room for all segments");

/// Writes one row of a matrix of any format, dequantised to K floats.
inline void readMatrixRow(const void* matrix, const MatrixLayout& layout, int64_t row, float* out) {
  if (layout.format != Format::q8) {
    MatrixReader(matrix, layout).read(row, out);
    return;
  }
  const auto& header = *static_cast<const PackedHeader*>(matrix);
  const PackedSegment& segment = header.of(row);
  MatrixReader(header.panels(segment), segment.layout(layout.columns))
      .read(row - segment.firstRow, out);
}

}  // namespace perigee
