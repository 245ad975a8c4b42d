// Packs the weights of a checkpoint: converts them to a format in the kernels' layout (matrix.h).
//
// Work    one task per panel: its rows are widened to f32, rounded, and written lane by lane
// Bound   memory: the source is read once and the packed matrix written once
// Checked test/devices/cpu/linear.test.ts
#include <algorithm>

#include "matrix.h"
#include "thread-pool.h"
#include "widen-rows.h"

namespace perigee {

namespace {

struct PackParams {
  ThreadPool* pool;
  uint32_t* matrix;
  Int format;
  Int columns;
  Int firstRow;    // first row of the matrix that this source fills
  Int sourceRows;
  Int element;
  Int transposed;  // the source is [columns, sourceRows]
  Int rows;        // of the whole matrix
};

void packF32(uint32_t* words, const float* values, int64_t columns) {
  for (int64_t column = 0; column < columns; ++column) {
    words[column * kPanelRows] = bitCast<uint32_t>(values[column]);
  }
}

void packBf16(uint32_t* words, const float* values, int64_t columns) {
  for (int64_t column = 0; column < columns; column += 2) {
    const uint32_t low = narrowBf16(values[column]);
    const uint32_t high = column + 1 < columns ? narrowBf16(values[column + 1]) : 0;
    words[column / 2 * kPanelRows] = low | high << 16;
  }
}

void packI8(uint32_t* words, const float* values, const MatrixLayout& layout) {
  constexpr uint32_t offset = kWeightOffset * 0x01010101u;
  for (int64_t group = 0; group < groupCount(layout.columns); ++group) {
    const int64_t start = group * kGroupColumns;
    const int64_t count = groupEnd(group, layout.columns) - start;
    int8_t bytes[kGroupColumns] = {};
    int32_t sum;
    const float scale = quantizeGroup(bytes, values + start, count, &sum);
    words[layout.wordOfScales(group)] = bitCast<uint32_t>(scale);
    for (int64_t column = 0; column < count; column += 4) {
      uint32_t word;
      std::memcpy(&word, bytes + column, 4);

      // Adding 128 to a byte modulo 256 flips its top bit.
      words[layout.wordOf((start + column) / 4)] = word ^ offset;
    }
  }
}

void packRow(uint32_t* words, const float* values, const MatrixLayout& layout) {
  switch (layout.format) {
    case Format::f32: packF32(words, values, layout.columns); break;
    case Format::bf16: packBf16(words, values, layout.columns); break;
    case Format::i8: packI8(words, values, layout); break;
    case Format::q8: break;  // pack-blocks.cpp
  }
}

}  // namespace

PERIGEE_EXPORT int64_t perigee_matrix_bytes(int32_t format, int64_t rows, int64_t columns) {
  return MatrixLayout{static_cast<Format>(format), rows, columns}.bytes();
}

/// Packs rows [firstRow, firstRow + sourceRows) of the matrix from one source.
PERIGEE_EXPORT void perigee_pack(const PackParams* params, const void* source) {
  const MatrixLayout layout{formatOf(params->format), params->rows, params->columns};
  const FileMatrix file{source, elementOf(params->element), params->transposed != 0,
                        params->sourceRows, params->columns};
  const int64_t begin = params->firstRow, end = begin + params->sourceRows;
  if (end == begin) return;
  const int64_t firstPanel = begin / kPanelRows;
  const int64_t panels = (end + kPanelRows - 1) / kPanelRows - firstPanel;
  params->pool->parallelFor(panels, [&](int64_t task, int thread) {
    const int64_t panel = firstPanel + task;
    const int64_t first = std::max(begin, panel * kPanelRows);
    const int64_t last = std::min(end, (panel + 1) * kPanelRows);
    float* const values = params->pool->scratch<float>((last - first) * layout.columns, thread);
    widenRows(values, file, first - begin, last - begin);
    uint32_t* const words = params->matrix + panel * layout.panelWords();
    for (int64_t row = first; row < last; ++row) {
      packRow(words + row % kPanelRows, values + (row - first) * layout.columns, layout);
    }
  });
}

/// Converts a source of any element type to f32.
PERIGEE_EXPORT void perigee_widen(float* to, const void* source, int32_t element, int64_t count) {
  widenRow(to, source, static_cast<Element>(element), 0, count);
}

}  // namespace perigee
