// Stands in for the instructions of Intel's matrix unit (AMX): included before a source file that
// uses them. Definitions: Intel's Architecture Instruction Set Extensions reference, "Intel AMX
// instruction set reference". A shape that an instruction would refuse ends the process.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tiles {

constexpr int kRowsMax = 16, kRowBytes = 64, kTiles = 8;

struct State {
  uint8_t shapes[64];  // the operand of LDTILECFG
  uint8_t at[kTiles][kRowsMax][kRowBytes];
};
inline thread_local State state;

inline void check(bool isRight) {
  if (!isRight) std::abort();
}

inline int rowsOf(int tile) { return state.shapes[48 + tile]; }

inline int bytesOf(int tile) {
  uint16_t bytes;
  std::memcpy(&bytes, state.shapes + 16 + 2 * tile, 2);
  return bytes;
}

inline void configure(const void* shapes) {
  std::memcpy(state.shapes, shapes, sizeof state.shapes);
  std::memset(state.at, 0, sizeof state.at);
  for (int tile = 0; tile < kTiles; ++tile) {
    check(rowsOf(tile) <= kRowsMax && bytesOf(tile) <= kRowBytes);
  }
}

inline void release() { std::memset(&state, 0, sizeof state); }

inline void zero(int tile) {
  check(rowsOf(tile) > 0);
  std::memset(state.at[tile], 0, sizeof state.at[tile]);
}

inline void load(int tile, const void* from, int64_t stride) {
  zero(tile);
  for (int row = 0; row < rowsOf(tile); ++row) {
    std::memcpy(state.at[tile][row], static_cast<const char*>(from) + row * stride, bytesOf(tile));
  }
}

inline void store(int tile, void* to, int64_t stride) {
  check(rowsOf(tile) > 0);
  for (int row = 0; row < rowsOf(tile); ++row) {
    std::memcpy(static_cast<char*>(to) + row * stride, state.at[tile][row], bytesOf(tile));
  }
}

/// Calls add(sum, row's word, column's word) for each product of words.
template <typename Sum, typename Add>
void multiply(int sums, int rows, int columns, const Add& add) {
  check(rowsOf(sums) == rowsOf(rows) && bytesOf(sums) == bytesOf(columns) &&
        bytesOf(rows) / 4 == rowsOf(columns));
  for (int row = 0; row < rowsOf(sums); ++row) {
    for (int column = 0; column < bytesOf(sums) / 4; ++column) {
      Sum sum;
      std::memcpy(&sum, state.at[sums][row] + 4 * column, 4);
      for (int step = 0; step < rowsOf(columns); ++step) {
        sum += add(state.at[rows][row] + 4 * step, state.at[columns][step] + 4 * column);
      }
      std::memcpy(state.at[sums][row] + 4 * column, &sum, 4);
    }
  }
}

template <typename Row, typename Column>
void multiplyBytes(int sums, int rows, int columns) {
  multiply<int32_t>(sums, rows, columns, [](const uint8_t* x, const uint8_t* weights) {
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<Row>(x[i]) * static_cast<Column>(weights[i]);
    return sum;
  });
}

}  // namespace tiles

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbsud
#define _tile_loadconfig tiles::configure
#define _tile_release tiles::release
#define _tile_zero tiles::zero
#define _tile_loadd tiles::load
#define _tile_stored tiles::store
#define _tile_dpbssd tiles::multiplyBytes<int8_t, int8_t>
#define _tile_dpbsud tiles::multiplyBytes<int8_t, uint8_t>
