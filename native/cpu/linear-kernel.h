// GEMM microkernel: an M x panel tile of accumulators in registers. linear-tile.h defines its
// input.
#pragma once

#include "linear-dot.h"
#include "linear-tile.h"

namespace perigee {

/// Accumulators of a tile: M rows x one panel.
template <typename Dot, int M>
struct TileSums {
  typename Dot::Sum at[M][kPanelVectors];

  /// Adds `steps` K steps. All loops but the outer one are unrolled, so the accumulators stay in
  /// registers.
  __attribute__((always_inline)) void add(const uint32_t* x, const uint32_t* weights,
                                          int64_t steps, Prefetch next) {
    for (int64_t step = 0; step < steps; ++step) {
      // Into L2: L1 holds the current panel and rows.
      if (next.isAhead()) {
        next.askAhead(step * kPanelRows * 4, kPanelRows * 4);
      } else {
        __builtin_prefetch(next.at(step), 0, 2);
      }
      U32 weight[kPanelVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) {
        std::memcpy(&weight[v], weights + step * kPanelRows + v * kLanes, sizeof(U32));
      }
#pragma GCC unroll 2
      for (int part = 0; part < Dot::kParts; ++part) {
        U32 parts[kPanelVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kPanelVectors; ++v) parts[v] = Dot::part(weight[v], part);
#pragma GCC unroll 16
        for (int row = 0; row < M; ++row) {
          const typename Dot::Word word = Dot::spread(x[(step * Dot::kParts + part) * M + row]);
#pragma GCC unroll 4
          for (int v = 0; v < kPanelVectors; ++v) {
            at[row][v] = Dot::dot(at[row][v], parts[v], word);
          }
        }
      }
    }
  }
};

/// f32 and bf16: one sum over all columns.
template <typename Dot, int M>
void multiplyTile(const uint32_t* x, const uint32_t* panel, int64_t steps, Prefetch next,
                  float* out) {
  TileSums<Dot, M> sums = {};
  sums.add(x, panel, steps, next);
  for (int row = 0; row < M; ++row) {
    for (int v = 0; v < kPanelVectors; ++v) {
      store(out + row * kPanelRows + v * kLanes, sums.at[row][v]);
    }
  }
}

}  // namespace perigee
