// out = act(gate) * up of x times the transposed weight, plus bias, for tens to hundreds of rows of
// bf16: the input half of a gated feed-forward in a decode step of many sequences.
//
// Formula  product[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n];
//          out[t, f] = act(product[t, f]) * product[t, F + f]
// Shapes   x [T, K] and weight [2F, K] bf16, bias [2F] f32, out [T, F] bf16; F a multiple of 8
// Work     linear-tiles.h; a tile has 64 rows of gate and the same ones of up, 8 of each in turn,
//          so that a thread has both factors
// Bound    memory: 4 * F * K bytes; of many rows tensor cores: 4 * T * F * K operations
// Checked  bench/gpu/smoke.mjs, linearActivate; test/devices/cuda/linear-tiles.test.ts
#include "linear-tiles.h"
#include "nonlinear.h"

namespace perigee {

struct LinearTilesActivateParams {
  TileWork work;
  PackedRows out;
  const float* bias;  // null: none
  int count;          // T
  Nonlinearity kind;
};

constexpr int kTurnRows = 8;  // of gate, then of up
constexpr int kTileColumns = kTileOutputs / 2;

struct LinearTilesActivateJob {
  const LinearTilesActivateParams& p;

  __device__ const TileWork& work() const { return p.work; }

  /// Of [F / 8][2][8][columns].
  static __device__ BoxPlace place(int outputTile, int column) {
    return {{column, 0, 0, outputTile * (kTileColumns / kTurnRows), 0}};
  }

  template <int kSums>
  __device__ void finish(const float (&sums)[kSums], int tile, int token, int row) const {
    const int size = p.out.columns;
    const int own = row % kTurnRows;
    const int column = tile * kTileColumns + row / 2 / kTurnRows * kTurnRows + own;
    const bool inside = column < size;
    const float gateBias = p.bias == nullptr || !inside ? 0.0f : p.bias[column];
    const float upBias = p.bias == nullptr || !inside ? 0.0f : p.bias[size + column];
    const int odd = own % 2;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float first = valueOf(sums[i] + gateBias, sums[i + 2] + upBias);
      const float second = valueOf(sums[i + 1] + gateBias, sums[i + 3] + upBias);
      // Of two rows of x two lanes have one column each: each takes both columns of one row.
      constexpr int kNextColumn = 4;
      const float other = __shfl_xor_sync(0xffffffffu, odd ? first : second, kNextColumn);
      const int at = token + i / 4 * 8 + odd;
      if (!inside || at >= p.count) continue;
      const uint32_t pair = WarpgroupProducts<Bf16>::pair(odd ? other : first,
                                                          odd ? second : other);
      *reinterpret_cast<uint32_t*>(p.out.row(at) + (column - odd) * 2) = pair;
    }
  }

 private:
  __device__ float valueOf(float gate, float up) const { return nonlinear(p.kind, gate) * up; }
};

#define PERIGEE_TILES(name, tokens)                                         \
  PERIGEE_KERNEL PERIGEE_CLUSTER __launch_bounds__(kTilesThreads, 1)        \
      perigee_##name(const __grid_constant__ LinearTilesActivateParams p) { \
    multiplyTiles<tokens>(LinearTilesActivateJob{p});                       \
  }

PERIGEE_TILES(linear_tiles_activate_32, 32)
PERIGEE_TILES(linear_tiles_activate_64, 64)
PERIGEE_TILES(linear_tiles_activate_96, 96)
PERIGEE_TILES(linear_tiles_activate_128, 128)
PERIGEE_TILES(linear_tiles_activate_192, 192)
PERIGEE_TILES(linear_tiles_activate_256, 256)

}  // namespace perigee
