// How a tile of 16-bit elements lies in shared memory for Hopper's tensor cores, and the
// descriptors that say so.
//
// A panel is 64 columns: rows of 128 bytes, eight chunks of 16. Chunk c of row r lies in place
// c ^ (r % 8) of its row, counted from a multiple of 1024: the 128-byte swizzle of the copy engine
// and of wgmma, by which eight rows' chunks of one column are in eight different banks. Eight rows
// of all panels lie together, panel behind panel, and then the next eight rows: so whole rows of
// any multiple of 8 are one stretch of memory, which one copy fills.
#pragma once

#include "numbers.h"

namespace perigee {

constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 128;
constexpr int kPanelChunks = 8;
/// Rows after which the swizzle begins again.
constexpr int kSwizzleRows = 8;
constexpr int kSwizzleBytes = kSwizzleRows * kPanelRowBytes;

/// A matrix descriptor of wgmma: address, leading and stride offsets in units of 16 bytes in bits
/// 0, 16 and 32, and 1 (the 128-byte swizzle) in bits 62 and 63.
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
  /// From eight rows to the next eight.
  static constexpr int kRowsStride = kPanels * kSwizzleBytes;

  /// Where a chunk of 8 elements begins, from the tile's start.
  static __host__ __device__ constexpr int offset(int row, int chunk) {
    const int place = (chunk % kPanelChunks) ^ (row % kSwizzleRows);
    return row / kSwizzleRows * kRowsStride + chunk / kPanelChunks * kSwizzleBytes +
           row % kSwizzleRows * kPanelRowBytes + place * 16;
  }

  /// Operand whose k runs along rows (K-major): 16 columns from `column` on. The leading offset has
  /// no meaning there.
  static __host__ __device__ constexpr uint64_t alongRows(uint32_t tile, int column) {
    const int inPanel = column % kPanelColumns * 2;
    return panelDescriptor(tile + column / kPanelColumns * kSwizzleBytes + inPanel, 16,
                           kRowsStride);
  }

  /// Operand whose k runs across rows (MN-major): 16 rows from `row` on, a multiple of 8, and all
  /// columns.
  static __host__ __device__ constexpr uint64_t acrossRows(uint32_t tile, int row) {
    return panelDescriptor(tile + row / kSwizzleRows * kRowsStride, kSwizzleBytes, kRowsStride);
  }
};

}  // namespace perigee
