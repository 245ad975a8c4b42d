// Packs checkpoint tensors into the rows of a weight matrix.
//
// pack_elements  a range of a file's elements, of any type, to f32 or bf16 rows
// pack_random    generated elements (src/devices/reference/random-weights.ts), likewise
// pack_rows      f32 rows to any format; the second step for i8, whose scales need whole rows
//
// Shapes   source: row-major [R, C], or transposed [C, R]; out [rows, C], from `firstRow` on
// Work     one thread per element, or per four random ones; pack_rows: one block per row
// Bound    the bus: a file's bytes cross it once; pack_random: memory bandwidth
// Checked  bench/gpu/smoke.mjs, pack
//
// None of these kernels lets the next kernel start early: linear kernels read weights before they
// wait.
#include "packed-rows.h"
#include "philox.h"

namespace perigee {

/// Maps the elements of a file's matrix to rows of the packed matrix.
struct Placement {
  PackedRows out;
  int sourceColumns;
  int transposed;
  int firstRow;

  /// Stores element `index` of the source, in row-major order; f32 or bf16.
  __device__ void store(int64_t index, float value) const {
    const int64_t sourceRow = index / sourceColumns;
    const int64_t sourceColumn = index % sourceColumns;
    const int64_t column = transposed ? sourceRow : sourceColumn;
    uint8_t* const bytes = out.row(firstRow + (transposed ? sourceColumn : sourceRow));
    if (out.format == Format::bf16) {
      reinterpret_cast<Bf16*>(bytes)[column] = narrowBf16(value);
    } else {
      reinterpret_cast<float*>(bytes)[column] = value;
    }
  }
};

struct PackElementsParams {
  Placement place;
  const void* source;
  int64_t first;  // index of the range's first element in the file's matrix
  int64_t count;
  Element element;
};

PERIGEE_KERNEL perigee_pack_elements(const __grid_constant__ PackElementsParams p) {
  waitForPrevious();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count;
       i += stride) {
    p.place.store(p.first + i, loadElement(p.source, p.element, i));
  }
}

struct PackRandomParams {
  Placement place;
  int64_t count;
  int seedLow;
  int seedHigh;
  float range;
};

PERIGEE_KERNEL perigee_pack_random(const __grid_constant__ PackRandomParams p) {
  waitForPrevious();
  constexpr int kLanes = 4;
  const int64_t blocks = (p.count + kLanes - 1) / kLanes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; block < blocks;
       block += stride) {
    uint32_t words[kLanes] = {static_cast<uint32_t>(block), 0, 0, 0};
    philox(words, static_cast<uint32_t>(p.seedLow), static_cast<uint32_t>(p.seedHigh));
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t index = block * kLanes + lane;
      // 24 bits: exact up to the multiplication, so that the product is rounded equally on all
      // devices.
      const float centred = static_cast<float>(words[lane] >> 8) * (1.0f / 8388608.0f) - 1.0f;
      if (index < p.count) p.place.store(index, widen(narrowBf16(__fmul_rn(centred, p.range))));
    }
  }
}

struct PackRowsParams {
  PackedRows out;
  const float* x;  // [rows of this launch, columns]
  int firstRow;
};

PERIGEE_KERNEL perigee_pack_rows(const __grid_constant__ PackRowsParams p) {
  waitForPrevious();
  const float* const x = p.x + static_cast<int64_t>(blockIdx.x) * p.out.columns;
  p.out.store(static_cast<int64_t>(p.firstRow) + blockIdx.x, [&](int i) { return x[i]; });
}

}  // namespace perigee
