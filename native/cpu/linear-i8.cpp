// i8 GEMM tile kernel: exact i32 sums over a group of 128 columns, then scaled and summed in f32.
// Formula, shapes and tests: linear.cpp.
#include <utility>

#include "linear-kernel.h"

namespace perigee {

namespace {

/// Adds a group's integer sums, times both scales, to the tile's f32 sums.
template <int M>
void addScaled(F32 (&totals)[M][kPanelVectors], const TileSums<DotI8, M>& sums,
               const uint32_t* scalesX, const uint32_t* scalesWeight) {
  F32 weight[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v) {
    std::memcpy(&weight[v], scalesWeight + v * kLanes, sizeof(F32));
  }
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    const F32 scaleX = broadcast(bitCast<float>(scalesX[row]));
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      totals[row][v] = fma(toFloat(sums.at[row][v]), weight[v] * scaleX, totals[row][v]);
    }
  }
}

template <int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* out) {
  F32 totals[M][kPanelVectors];
  for (int row = 0; row < M; ++row) {
    for (int v = 0; v < kPanelVectors; ++v) totals[row][v] = F32{};
  }
  for (int64_t start = 0; start < columns; start += kGroupColumns) {
    const int64_t left = columns - start;
    const int64_t steps = ((left < kGroupColumns ? left : kGroupColumns) + 3) / 4;

    // Initialised to minus the contribution of the weights' offset, which the products then add.
    TileSums<DotI8, M> sums;
    for (int row = 0; row < M; ++row) {
      for (int v = 0; v < kPanelVectors; ++v) {
        sums.at[row][v] = I32{} + static_cast<int32_t>(x[row]);
      }
    }
    const uint32_t* const words = x + 2 * M;
    sums.add(words, panel, steps, next);
    next.advance(steps, (steps + 1) * kPanelRows * 4);
    addScaled<M>(totals, sums, x + M, panel + steps * kPanelRows);
    x = words + steps * M;
    panel += (steps + 1) * kPanelRows;
  }
  for (int row = 0; row < M; ++row) {
    for (int v = 0; v < kPanelVectors; ++v) {
      store(out + row * kPanelRows + v * kLanes, totals[row][v]);
    }
  }
}

template <int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel tileKernelI8(int rows) {
  return choose(rows, std::make_integer_sequence<int, tileRows(Format::i8)>());
}

}  // namespace perigee
