// How a tile of 16-bit elements lies in shared memory for Hopper's tensor cores, and the
// descriptors that say so.
//
// A panel is [rows][64 elements]: rows of 128 bytes, eight chunks of 16. Chunk c of row r lies in
// place c ^ (r % 8) of its row, counted from a multiple of 1024: the 128-byte swizzle of the copy
// engine and of wgmma, by which eight rows' chunks of one column are in eight different banks.
// A wider tile is one panel behind the other.
#pragma once

#include "numbers.h"

namespace perigee {

constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 128;
constexpr int kPanelChunks = 8;
/// Rows after which the swizzle begins again.
constexpr int kPanelGroupBytes = 8 * kPanelRowBytes;

/// Where a chunk of 8 elements begins, from the panel's start.
__host__ __device__ constexpr int chunkOffset(int row, int chunk) {
  return row * kPanelRowBytes + ((chunk ^ (row % 8)) * 16);
}

/// A matrix descriptor of wgmma: address, leading and stride offsets in units of 16 bytes in bits
/// 0, 16 and 32, and 1 (the 128-byte swizzle) in bits 62 and 63.
__host__ __device__ constexpr uint64_t panelDescriptor(uint32_t address, int leadingBytes) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) |
         static_cast<uint64_t>(leadingBytes >> 4) << 16 |
         static_cast<uint64_t>(kPanelGroupBytes >> 4) << 32 | uint64_t{1} << 62;
}

/// Operand whose k runs along a panel's rows of 128 bytes (K-major): 16 columns from `column` on of
/// panels that are `panelBytes` apart. The leading offset has no meaning there.
__host__ __device__ constexpr uint64_t alongRows(uint32_t panels, int panelBytes, int column) {
  const int panel = column / kPanelColumns;
  return panelDescriptor(panels + panel * panelBytes + column % kPanelColumns * 2, 16);
}

/// Operand whose k runs across a panel's rows (MN-major): 16 rows from `row` on, a multiple of 8,
/// and the columns of all panels.
__host__ __device__ constexpr uint64_t acrossRows(uint32_t panels, int panelBytes, int row) {
  return panelDescriptor(panels + row * kPanelRowBytes, panelBytes);
}

}  // namespace perigee
