// A tile: a few rows of activations times one panel of weights, held in registers.
//
// M rows · K columns
//
// The rows are interleaved first (`TilePacker`), so that a kernel reads two linear streams and
// needs two addresses, whatever M is, and rows a power of two apart do not fight for cache sets:
//   f32, bf16   [steps][M] words
//   i8          [groups] ( [M] offsets, [M] scales, [steps of the group][M] words )
// where an offset is -kWeightOffset times the sum of the row's bytes in the group.
#pragma once

#include "activation.h"
#include "matrix.h"

namespace perigee {

/// Rows of a full tile. AVX-512: 12 x 2 accumulators, 2 weights and 1 activation fill 27 of 32
/// registers; more rows would save weight loads, which are not the bound, and leave larger last
/// tiles. i8 keeps its f32 sums in registers too (6 x 4; with 12 rows they spill: 6 % slower at
/// K = 576). Elsewhere steps need temporaries (widened halves of bf16, products of bytes in 16
/// bits), which take the place of rows.
constexpr int tileRows(Format format) {
  if (kVectorRegisters == 16) return format == Format::f32 ? 6 : 4;
  if (kLanes == 4) return format == Format::bf16 ? 5 : 6;
  return format == Format::i8 ? 6 : 12;
}

/// The largest of them.
constexpr int kTileRowsMax = tileRows(Format::f32);

/// What to bring closer while a tile is computed: one address a step.
struct Prefetch {
  const void* from;
  int64_t bytesPerStep;

  const void* at(int64_t step) const {
    return static_cast<const uint8_t*>(from) + step * bytesPerStep;
  }
};

/// Multiplies `x` (interleaved) by one panel: `sums` becomes [M, kPanelRows].
using TileKernel = void (*)(const uint32_t* x, const uint32_t* panel, int64_t columns,
                            Prefetch next, float* sums);

/// The kernel for `rows` rows, 1 to tileRows(format).
TileKernel tileKernelF32(int rows);
TileKernel tileKernelBf16(int rows);
TileKernel tileKernelI8(int rows);

inline TileKernel tileKernel(Format format, int rows) {
  switch (format) {
    case Format::f32: return tileKernelF32(rows);
    case Format::bf16: return tileKernelBf16(rows);
    case Format::i8: return tileKernelI8(rows);
  }
  return nullptr;
}

/// Interleaves rows for a kernel.
class TilePacker {
 public:
  TilePacker(Format format, int64_t columns)
      : activation_{format, columns}, matrix_{format, 0, columns} {}

  int64_t words(int rows) const {
    const int64_t perGroup =
        activation_.format == Format::i8 ? 2 * groupCount(activation_.columns) : 0;
    return (matrix_.steps(activation_.columns) + perGroup) * rows;
  }

  void pack(uint32_t* out, const uint8_t* const* rows, int count) const {
    if (activation_.format == Format::i8) {
      packGroups(out, rows, count);
    } else {
      interleave(out, rows, count, 0, matrix_.steps(activation_.columns));
    }
  }

 private:
  static void interleave(uint32_t* out, const uint8_t* const* rows, int count, int64_t first,
                         int64_t last) {
    for (int row = 0; row < count; ++row) {
      const uint8_t* const from = rows[row];
      for (int64_t step = first; step < last; ++step) {
        std::memcpy(out + (step - first) * count + row, from + step * 4, 4);
      }
    }
  }

  void packGroups(uint32_t* out, const uint8_t* const* rows, int count) const {
    const int64_t columns = activation_.columns;
    for (int64_t group = 0; group < groupCount(columns); ++group) {
      for (int row = 0; row < count; ++row) {
        const int32_t sum = activation_.sums(rows[row])[group];
        out[row] = static_cast<uint32_t>(-kWeightOffset * sum);
        out[count + row] = bitCast<uint32_t>(activation_.scales(rows[row])[group]);
      }
      out += 2 * count;
      const int64_t first = group * kGroupColumns / 4;
      const int64_t last = matrix_.steps(groupEnd(group, columns));
      interleave(out, rows, count, first, last);
      out += (last - first) * count;
    }
  }

  ActivationLayout activation_;
  MatrixLayout matrix_;
};

}  // namespace perigee
