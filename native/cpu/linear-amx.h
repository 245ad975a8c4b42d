// Shapes of the matrix unit's tiles, which belong to a thread.
#pragma once

#include "linear-kernel.h"

#if defined(__AMX_TILE__)

namespace perigee {

/// Bytes of a K step of a panel.
constexpr int64_t kStepBytes = kPanelRows * 4;

/// The operand of LDTILECFG: rows and bytes of a row of each tile.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t tileRows, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(tileRows);
    rowBytes[tile] = static_cast<uint16_t>(bytes);
  }
};

/// Gives this thread's tiles these shapes; costs nothing if they have them.
void useTiles(const TileShapes& shapes);

}  // namespace perigee

#endif
