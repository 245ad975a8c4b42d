// Rows of a file's matrix as floats, whatever their element type and order.
#pragma once

#include "params.h"
#include "simd.h"

namespace perigee {

/// A file's matrix: [rows, columns], or [columns, rows] where `transposed`. Elements may lie at any
/// address.
struct FileMatrix {
  const void* bytes;
  Element element;
  bool transposed;
  int64_t rows;
  int64_t columns;
};

inline float widenOne(const void* source, Element element, int64_t index) {
  if (element == Element::f32) {
    float value;
    std::memcpy(&value, static_cast<const uint8_t*>(source) + index * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, static_cast<const uint8_t*>(source) + index * 2, 2);
  return element == Element::f16 ? widenF16(half) : widenBf16(half);
}

/// Widens `count` elements from `first` on. Tensors in files may be unaligned, so bytes are copied,
/// not dereferenced.
inline void widenRow(float* out, const void* source, Element element, int64_t first,
                     int64_t count) {
  const int64_t size = element == Element::f32 ? 4 : 2;
  const uint8_t* const from = static_cast<const uint8_t*>(source) + first * size;
  int64_t i = 0;
  if (element == Element::f32) {
    std::memcpy(out, from, static_cast<size_t>(count) * 4);
    return;
  }
  for (; i + kLanes <= count; i += kLanes) {
    uint16_t halves[kLanes];
    std::memcpy(halves, from + i * 2, sizeof halves);
    store(out + i, element == Element::f16 ? loadF16(halves) : loadBf16(halves));
  }
  for (; i < count; ++i) out[i] = widenOne(source, element, first + i);
}

/// Rows [first, last) as floats: `out` is [last - first, columns].
inline void widenRows(float* out, const FileMatrix& matrix, int64_t first, int64_t last) {
  const auto [bytes, element, transposed, rows, columns] = matrix;
  if (!transposed) {
    widenRow(out, bytes, element, first * columns, (last - first) * columns);
    return;
  }
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = first; row < last; ++row) {
      out[(row - first) * columns + column] = widenOne(bytes, element, column * rows + row);
    }
  }
}

}  // namespace perigee
