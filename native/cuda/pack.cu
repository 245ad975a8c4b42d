// Elements of a file into the rows of a weight matrix.
//
// pack_elements  a stretch of the file's elements, of any type, to f32 or bf16 rows
// pack_rows      rows of f32 to any format: what i8 takes second, since its scales need whole rows
//
// Shapes   source: row-major [R, C], or transposed [C, R]; out [rows, C], from `firstRow` on
// Work     a thread per element; a block per row
// Bound    the bus: a file's bytes cross it once
// Checked  bench/gpu/smoke.mjs, pack
#include "packed-rows.h"

namespace perigee {

struct PackElementsParams {
  PackedRows out;
  const void* source;
  int64_t first;  // Number of the stretch's first element in the file's matrix.
  int64_t count;
  Element element;
  int sourceColumns;
  int transposed;
  int firstRow;
};

PERIGEE_KERNEL perigee_pack_elements(const __grid_constant__ PackElementsParams p) {
  joinStream();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count;
       i += stride) {
    const int64_t sourceRow = (p.first + i) / p.sourceColumns;
    const int64_t sourceColumn = (p.first + i) % p.sourceColumns;
    const int64_t row = p.firstRow + (p.transposed ? sourceColumn : sourceRow);
    const int64_t column = p.transposed ? sourceRow : sourceColumn;
    const float value = loadElement(p.source, p.element, i);
    uint8_t* const bytes = p.out.row(row);
    if (p.out.format == Format::bf16) {
      reinterpret_cast<Bf16*>(bytes)[column] = narrowBf16(value);
    } else {
      reinterpret_cast<float*>(bytes)[column] = value;
    }
  }
}

struct PackRowsParams {
  PackedRows out;
  const float* x;  // [rows of this launch, columns]
  int firstRow;
};

PERIGEE_KERNEL perigee_pack_rows(const __grid_constant__ PackRowsParams p) {
  joinStream();
  const float* const x = p.x + static_cast<int64_t>(blockIdx.x) * p.out.columns;
  p.out.store(static_cast<int64_t>(p.firstRow) + blockIdx.x, [&](int i) { return x[i]; });
}

}  // namespace perigee
