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
//   f32, bf16   [steps][M] words; bf16 that is multiplied as f32: [2 * steps][M] floats
//   i8          [groups] ( [M] offsets, [M] scales, [steps of the group][M] words )
//   q8          [groups] ( [corrections][M] (packed-panel.h), [8][M] words )
//   q8, wide    the same with [16][M] words of 16-bit numbers (expanded-panel.h)
// A matrix unit reads rows as they are, so bf16 and i8 lie row behind row there:
//   bf16        [M][rowWords] words
//   i8          [M][rowWords] words, then [groups] ( [M] offsets, [M] scales )
//   q8          [M][rowWords] words, then [groups] ( [corrections][M] )
// An offset is -kWeightOffset times the sum of the row's bytes in the group.
#pragma once

#include "activation.h"
#include "matrix.h"

namespace perigee {

/// Whether bf16 and i8 are multiplied by a matrix unit (linear-amx.cpp).
#if defined(__AMX_TILE__)
constexpr bool kMatrixUnit = true;
#else
constexpr bool kMatrixUnit = false;
#endif

/// Steps that one instruction of the matrix unit multiplies.
constexpr int64_t kChunkSteps = 16;

/// Words of a packed row for the matrix unit: `steps` of them, up to a whole chunk.
constexpr int64_t rowWords(int64_t steps) {
  return (steps + kChunkSteps - 1) / kChunkSteps * kChunkSteps;
}

/// Words of a tile's row for two columns of bf16: 2, widened to f32, where no instruction
/// multiplies them as they are, or one that takes longer than two of f32. The same for all of a
/// process.
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
int bf16Parts();
#else
constexpr int bf16Parts() { return kMatrixUnit ? 1 : 2; }
#endif

/// Rows of a full tile. A tile of the matrix unit has 16. AVX-512: 12 x 2 accumulators, 2 weight
/// and 1 activation register use 27 of 32. More rows would save weight loads, which are not the
/// bottleneck, and leave larger remainder tiles. i8 also keeps its f32 sums in registers (6 x 4;
/// with 12 rows they spill: 6 % slower at K = 576). AVX2: 6 x 2; products of bytes need
/// temporaries, which leave fewer registers for rows.
constexpr int tileRows(Format format) {
  if (kMatrixUnit && format != Format::f32) return 16;
  if (kVectorRegisters == 16) return format == Format::f32 || format == Format::bf16 ? 6 : 4;
  if (kLanes == 4) return 6;
  return format == Format::i8 || format == Format::q8 ? 6 : 12;
}

/// bf16 that is multiplied as f32: where more tiles use a panel, it is widened once.
constexpr int64_t kBf16TilesMax = 3;

/// Rows of a tile of q8 that vector instructions multiply.
constexpr int kPackedRowsMax = kMatrixUnit ? 6 : tileRows(Format::q8);

/// Of a cache line.
constexpr int64_t kLineBytes = 64;

/// Rows of the largest tile of any format.
constexpr int kTileRowsMax = kMatrixUnit ? tileRows(Format::bf16) : tileRows(Format::f32);

/// Memory to prefetch while a tile is computed. Where several tiles share a panel: the next one,
/// a line per step. Where one tile reads each panel once: what it reads a fixed distance later.
struct Prefetch {
  const uint8_t* from;
  int64_t bytesPerStep;          // 0: no line per step
  const uint8_t* end = nullptr;  // of the weights that are read; null: a line per step, or nothing

  const uint8_t* at(int64_t step) const { return from + step * bytesPerStep; }

  bool isAhead() const { return end != nullptr; }

  /// Prefetches as many bytes as are about to be read, `read` bytes into the panel.
  void askAhead(int64_t read, int64_t bytes) const {
    const uint8_t* const first = from + read;
    if (first >= end) return;
    for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(first + i, 0, 2);
  }

  /// So many steps on, whose weights are so many bytes.
  void advance(int64_t steps, int64_t bytes) { from += isAhead() ? bytes : steps * bytesPerStep; }
};

/// Multiplies the packed rows `x` by one panel: `sums` becomes [M, kPanelRows].
using TileKernel = void (*)(const uint32_t* x, const uint32_t* panel, int64_t columns,
                            Prefetch next, float* sums);

/// The kernel for `rows` rows, 1 to tileRows(format).
TileKernel tileKernelF32(int rows);
TileKernel tileKernelBf16(int rows);
TileKernel tileKernelI8(int rows);

/// bf16 to f32: room for two columns of each word.
void widenPanelBf16(const uint32_t* panel, int64_t columns, uint32_t* out);

/// q8: one tile of at most kPackedRowsMax rows by a panel as it is.
TileKernel packedKernel(BlockType type, int rows);

/// q8, where more tiles use a panel: by one that was expanded (packed-kernel.h).
TileKernel expandedKernel(BlockType type, int rows);
int64_t expandedWords(BlockType type, int64_t columns);
void expandPanel(BlockType type, const uint32_t* panel, int64_t columns, uint32_t* out);

TileKernel matrixKernelBf16(int rows);
TileKernel matrixKernelI8(int rows);
TileKernel matrixKernelQ8(BlockType type, int rows);

/// To be called when a thread has multiplied enough: a matrix unit in use slows down a change of
/// threads.
void releaseMatrixUnit();

inline TileKernel tileKernel(Format format, int rows) {
  if constexpr (kMatrixUnit) {
    if (format == Format::bf16) return matrixKernelBf16(rows);
    if (format == Format::i8) return matrixKernelI8(rows);
  }
  switch (format) {
    case Format::f32: return tileKernelF32(rows);
    case Format::bf16: return tileKernelBf16(rows);
    case Format::i8: return tileKernelI8(rows);
    case Format::q8: break;  // by the type of its blocks
  }
  return nullptr;
}

/// How the rows of a tile lie: word by word, row behind row for a matrix unit, or word by word with
/// 16 bits for each column of q8.
enum class TileLayout { woven, apart, wide };

/// Packs rows in the layouts above.
class TilePacker {
 public:
  /// Of the left operands of this matrix.
  TilePacker(const MatrixLayout& matrix, TileLayout layout)
      : activation_{matrix.format, matrix.columns},
        matrix_(matrix),
        shape_(shapeOf(traitsOf(matrix.type))),
        byteZero_(traitsOf(matrix.type).byteZero()),
        layout_(layout) {}

  int64_t words(int rows) const {
    const int64_t steps = matrix_.steps(activation_.columns);
    if (layout_ == TileLayout::apart) return (rowWords(steps) + correctionWords()) * rows;
    if (activation_.format == Format::q8) {
      return (blockCount(activation_.columns) * blockWords() + correctionWords()) * rows;
    }
    return (steps * parts() + correctionWords()) * rows;
  }

  void pack(uint32_t* out, const uint8_t* const* rows, int count) const {
    if (layout_ == TileLayout::apart) {
      copyRows(out, rows, count);
    } else if (activation_.format == Format::i8) {
      packGroups(out, rows, count);
    } else if (activation_.format == Format::q8) {
      packBlocks(out, rows, count);
    } else if (parts() == 2) {
      widenPairs(out, rows, count);
    } else {
      interleave(out, rows, count, 0, matrix_.steps(activation_.columns));
    }
  }

 private:
  /// Words of a row for a step.
  int parts() const { return activation_.format == Format::bf16 ? bf16Parts() : 1; }

  /// Words of one row's columns in a group of q8.
  int64_t blockWords() const { return kBlockSteps * (layout_ == TileLayout::wide ? 2 : 1); }

  /// Words of scales and sums of one row.
  int64_t correctionWords() const {
    switch (activation_.format) {
      case Format::i8: return 2 * groupCount(activation_.columns);
      case Format::q8: return shape_.corrections() * blockCount(activation_.columns);
      default: return 0;
    }
  }

  void copyRows(uint32_t* out, const uint8_t* const* rows, int count) const {
    const int64_t words = rowWords(matrix_.steps(activation_.columns));
    for (int row = 0; row < count; ++row) {
      // Activations are padded to whole chunks, too.
      std::memcpy(out + row * words, rows[row], static_cast<size_t>(words) * 4);
    }
    out += count * words;
    if (activation_.format == Format::i8) {
      for (int64_t group = 0; group < groupCount(activation_.columns); ++group, out += 2 * count) {
        packCorrection(out, rows, count, group);
      }
    }
    if (activation_.format == Format::q8) {
      for (int64_t block = 0; block < blockCount(activation_.columns); ++block) {
        packBlockCorrections(out, rows, count, block);
        out += shape_.corrections() * count;
      }
    }
  }

  /// Offsets and scales of the rows in a group.
  void packCorrection(uint32_t* out, const uint8_t* const* rows, int count, int64_t group) const {
    for (int row = 0; row < count; ++row) {
      const int32_t sum = activation_.sums(rows[row])[group];
      out[row] = static_cast<uint32_t>(-kWeightOffset * sum);
      out[count + row] = bitCast<uint32_t>(activation_.scales(rows[row])[group]);
    }
  }

  void packBlockCorrections(uint32_t* out, const uint8_t* const* rows, int count,
                            int64_t block) const {
    for (int row = 0; row < count; ++row) {
      const int32_t* const halves = activation_.blockSums(rows[row]) + 2 * block;
      const float scale = activation_.scales(rows[row])[block];
      for (int sub = 0; sub < shape_.scales; ++sub) {
        const int32_t sum = shape_.scales == 1 ? halves[0] + halves[1] : halves[sub];
        out[sub * count + row] = static_cast<uint32_t>(-byteZero_ * sum);
        if (shape_.mins) {
          out[(shape_.scales + sub) * count + row] =
              bitCast<uint32_t>(scale * static_cast<float>(sum));
        }
      }
      out[(shape_.corrections() - 1) * count + row] = bitCast<uint32_t>(scale);
    }
  }

  static void interleave(uint32_t* out, const uint8_t* const* rows, int count, int64_t first,
                         int64_t last) {
    for (int row = 0; row < count; ++row) {
      const uint8_t* const from = rows[row];
      for (int64_t step = first; step < last; ++step) {
        std::memcpy(out + (step - first) * count + row, from + step * 4, 4);
      }
    }
  }

  /// bf16 becomes f32: of each step the even column of all rows, then the odd one.
  void widenPairs(uint32_t* out, const uint8_t* const* rows, int count) const {
    const int64_t steps = matrix_.steps(activation_.columns);
    for (int row = 0; row < count; ++row) {
      for (int64_t step = 0; step < steps; ++step) {
        uint32_t pair;
        std::memcpy(&pair, rows[row] + step * 4, 4);
        out[2 * step * count + row] = pair << 16;
        out[(2 * step + 1) * count + row] = pair & 0xffff0000u;
      }
    }
  }

  void packGroups(uint32_t* out, const uint8_t* const* rows, int count) const {
    const int64_t columns = activation_.columns;
    for (int64_t group = 0; group < groupCount(columns); ++group) {
      packCorrection(out, rows, count, group);
      out += 2 * count;
      const int64_t first = group * kGroupColumns / 4;
      const int64_t last = matrix_.steps(groupEnd(group, columns));
      interleave(out, rows, count, first, last);
      out += (last - first) * count;
    }
  }

  /// All groups are whole: rows are padded with zeros.
  void packBlocks(uint32_t* out, const uint8_t* const* rows, int count) const {
    for (int64_t block = 0; block < blockCount(activation_.columns); ++block) {
      packBlockCorrections(out, rows, count, block);
      out += shape_.corrections() * count;
      if (layout_ == TileLayout::wide) {
        widenBlock(out, rows, count, block);
      } else {
        interleave(out, rows, count, block * kBlockSteps, (block + 1) * kBlockSteps);
      }
      out += blockWords() * count;
    }
  }

  /// Of 4 columns the even ones, then the odd ones: the order in which a panel's bytes are widened.
  static void widenBlock(uint32_t* out, const uint8_t* const* rows, int count, int64_t block) {
    const auto pair = [](int8_t first, int8_t second) {
      return static_cast<uint32_t>(static_cast<uint16_t>(first)) |
             static_cast<uint32_t>(static_cast<uint16_t>(second)) << 16;
    };
    for (int row = 0; row < count; ++row) {
      const auto* const from = reinterpret_cast<const int8_t*>(rows[row]) + block * kBlockColumns;
      for (int step = 0; step < kBlockSteps; ++step) {
        const int8_t* const columns = from + 4 * step;
        out[2 * step * count + row] = pair(columns[0], columns[2]);
        out[(2 * step + 1) * count + row] = pair(columns[1], columns[3]);
      }
    }
  }

  ActivationLayout activation_;
  MatrixLayout matrix_;
  PanelShape shape_;  // q8 alone, as the next one
  int byteZero_;
  TileLayout layout_;
};

}  // namespace perigee
