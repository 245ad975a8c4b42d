// out = x times the transposed weight, plus bias, for tens to hundreds of rows of bf16: decode
// steps of many sequences.
//
// Formula  out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to what out holds
// Shapes   x [T, K] and weight [N, K] bf16, bias [N] f32, out [T, N] f32
// Work     linear-tiles.h, a kernel per size of a tile
// Bound    memory: 2 * N * K bytes; of many rows tensor cores: 2 * T * N * K operations
// Checked  bench/gpu/smoke.mjs, linear; test/devices/cuda/linear-tiles.test.ts
#include "linear-params.h"
#include "linear-tiles.h"

namespace perigee {

struct LinearTilesParams {
  TileWork work;
  LinearParams linear;
};

struct LinearTilesJob {
  const LinearTilesParams& p;

  __device__ const TileWork& work() const { return p.work; }

  static __device__ BoxPlace place(int outputTile, int column) {
    return {{column, outputTile * kTileOutputs, 0, 0, 0}};
  }

  template <int kSums>
  __device__ void finish(const float (&sums)[kSums], int tile, int token, int row) const {
    const LinearParams& linear = p.linear;
    const int output = tile * kTileOutputs + row;
    const float bias[2] = {biasOf(output), biasOf(output + 8)};
    // Some at once, since what is there is far away.
    constexpr int kStep = kSums % 32 == 0 ? 32 : kSums % 16 == 0 ? 16 : kSums;
#pragma unroll
    for (int begin = 0; begin < kSums; begin += kStep) {
      float held[kStep] = {};
      if (linear.accumulate) {
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          const Place place = placeOf(begin + i, token, output);
          if (place.inside) held[i] = *place.at;
        }
      }
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const Place place = placeOf(begin + i, token, output);
        if (place.inside) *place.at = held[i] + (sums[begin + i] + bias[i % 4 / 2]);
      }
    }
  }

 private:
  struct Place {
    float* at;
    bool inside;
  };

  __device__ float biasOf(int output) const {
    const LinearParams& linear = p.linear;
    return linear.bias == nullptr || output >= linear.outputs ? 0.0f : linear.bias[output];
  }

  /// Of a thread's sum number `i`.
  __device__ Place placeOf(int i, int token, int output) const {
    const int row = token + i / 4 * 8 + i % 2;
    const int column = output + i % 4 / 2 * 8;
    return {p.linear.out + static_cast<int64_t>(row) * p.linear.outputs + column,
            row < p.linear.count && column < p.linear.outputs};
  }
};

#define PERIGEE_TILES(name, tokens)                                  \
  PERIGEE_KERNEL PERIGEE_CLUSTER __launch_bounds__(kTilesThreads, 1) \
      perigee_##name(const __grid_constant__ LinearTilesParams p) {  \
    multiplyTiles<tokens>(LinearTilesJob{p});                        \
  }

PERIGEE_TILES(linear_tiles_32, 32)
PERIGEE_TILES(linear_tiles_64, 64)
PERIGEE_TILES(linear_tiles_96, 96)
PERIGEE_TILES(linear_tiles_128, 128)
PERIGEE_TILES(linear_tiles_192, 192)
PERIGEE_TILES(linear_tiles_256, 256)

}  // namespace perigee
