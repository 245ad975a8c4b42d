// GEMM tile: a few activation rows times one weight panel, accumulated in registers.
//
// M rows · K columns
//
//             panel of w: [steps][kPanelRows] words, one linear stream
//             +---------------------------+
//    x tile   |  kPanelVectors vectors    |   step k:  for each row m
//    [steps]  |  of kLanes outputs        |              acc[m][v] += x[k][m] * w[k][v]
//    [M]      |  x M rows of accumulators |
//             +---------------------------+
//
// TilePacker interleaves the rows first. A kernel then reads two linear streams through two
// addresses, whatever M is, and rows whose stride is a power of two do not conflict in the cache:
//   f32, bf16   [steps][M] words
//   i8          [groups] ( [M] offsets, [M] scales, [steps of the group][M] words )
// An offset is -kWeightOffset times the sum of the row's bytes in the group.
#pragma once

#include "activation.h"
#include "matrix.h"

namespace perigee {

/// Rows of a full tile. AVX-512: 12 x 2 accumulators, 2 weight and 1 activation register use 27 of
/// 32. More rows would save weight loads, which are not the bottleneck, and leave larger remainder
/// tiles. i8 also keeps its f32 sums in registers (6 x 4; with 12 rows they spill: 6 % slower at K
/// = 576). On the other instruction sets a step needs temporaries (widened halves of bf16, 16-bit
/// products of bytes), which leave fewer registers for rows.
constexpr int tileRows(Format format) {
  if (kVectorRegisters == 16) return format == Format::f32 ? 6 : 4;
  if (kLanes == 4) return format == Format::bf16 ? 5 : 6;
  return format == Format::i8 ? 6 : 12;
}

/// The largest of them: f32.
constexpr int kTileRowsMax = tileRows(Format::f32);

/// Memory to prefetch while a tile is computed: one address per step.
struct Prefetch {
  const void* from;
  int64_t bytesPerStep;

  const void* at(int64_t step) const {
    return static_cast<const uint8_t*>(from) + step * bytesPerStep;
  }
};

/// Multiplies the packed rows `x` by one panel: `sums` becomes [M, kPanelRows].
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

/// Packs rows in the interleaved layout above.
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
