// Layout of a tile of 16-bit elements in shared memory for wgmma, and its matrix descriptors.
//
// A panel is 64 columns: rows of 128 bytes, eight chunks of 16. Chunk c of row r is stored at chunk
// c ^ (r % 8) of its row, counted from a multiple of 1024 bytes. This is the 128-byte swizzle of
// TMA and wgmma: the chunks of one column in eight rows lie in eight different banks.
//
//    panel 0 rows 0-7 | panel 1 rows 0-7 | ... | panel 0 rows 8-15 | panel 1 rows 8-15 | ...
//      row 0: c0 c1 c2 c3 c4 c5 c6 c7
//      row 1: c1 c0 c3 c2 c5 c4 c7 c6
//
// So a group of whole rows, any multiple of 8, is contiguous and can be filled by one copy.
#pragma once

#include "numbers.h"

namespace perigee {

constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 128;
constexpr int kPanelChunks = 8;
/// Rows after which the swizzle pattern repeats.
constexpr int kSwizzleRows = 8;
constexpr int kSwizzleBytes = kSwizzleRows * kPanelRowBytes;

/// A wgmma matrix descriptor: address, leading and stride byte offsets in units of 16 bytes at bits
/// 0, 16 and 32, and the code 1 (128-byte swizzle) in bits 62 and 63.
__host__ __device__ constexpr uint64_t panelDescriptor(uint32_t address, int leadingBytes,
                                                       int strideBytes) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) |
         static_cast<uint64_t>(leadingBytes >> 4) << 16 |
         static_cast<uint64_t>(strideBytes >> 4) << 32 | uint64_t{1} << 62;
}

/// A tile with rows of kColumns elements.
template <int kColumns>
struct PanelTile {
  static constexpr int kPanels = kColumns / kPanelColumns;
  static constexpr int kRowBytes = kPanels * kPanelRowBytes;
  /// Byte offset from eight rows to the next eight.
  static constexpr int kRowsStride = kPanels * kSwizzleBytes;

  /// Byte offset of a chunk of 8 elements.
  static __host__ __device__ constexpr int offset(int row, int chunk) {
    const int place = (chunk % kPanelChunks) ^ (row % kSwizzleRows);
    return row / kSwizzleRows * kRowsStride + chunk / kPanelChunks * kSwizzleBytes +
           row % kSwizzleRows * kPanelRowBytes + place * 16;
  }

  /// Descriptor of an operand with k along rows (K-major): 16 columns from `column` on. The leading
  /// offset is ignored there.
  static __host__ __device__ constexpr uint64_t alongRows(uint32_t tile, int column) {
    const int inPanel = column % kPanelColumns * 2;
    return panelDescriptor(tile + column / kPanelColumns * kSwizzleBytes + inPanel, 16,
                           kRowsStride);
  }

  /// Descriptor of an operand with k across rows (MN-major): 16 rows from `row` on, a multiple of
  /// 8, and all columns.
  static __host__ __device__ constexpr uint64_t acrossRows(uint32_t tile, int row) {
    return panelDescriptor(tile + row / kSwizzleRows * kRowsStride, kSwizzleBytes, kRowsStride);
  }
};

}  // namespace perigee
