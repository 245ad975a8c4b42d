// Moves some layers of KV cache blocks between the device's pool and pinned host memory, either
// way.
//
// Shapes   pairs [n, 2] of block ids, n <= kMovesMax; `bytes` of each block, from `offset` on
// Work     A few thread blocks in a grid-stride loop over the 16-byte vectors of all pairs: enough
//          to saturate the bus, while concurrent ops keep nearly all of the GPU
// Bound    bus: each byte once
// Checked  bench/gpu/smoke.mjs, moveBlocks; test/devices/cuda/layer-moves.test.ts
//
// A kernel rather than memcpy, because one launch takes any list of blocks. The DMA copy engine
// needs a call for each block and layer. The pairs of one launch have distinct targets.
#include "params.h"

namespace perigee {

constexpr int kMovesMax = 240;
/// Loads in flight per thread before its first store.
constexpr int kVectorsAtOnce = 4;

struct MoveLayersParams {
  uint8_t* to;          // start of block 0
  const uint8_t* from;  // start of block 0
  int64_t bytesPerBlock;
  int64_t offset;
  int vectors;  // bytes / 16
  int count;    // n
  int pairs[2 * kMovesMax];
};

PERIGEE_KERNEL perigee_move_layers(const __grid_constant__ MoveLayersParams p) {
  joinStream();
  const int64_t total = static_cast<int64_t>(p.vectors) * p.count;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t mine = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto placeOf = [&](int64_t vector, int side) {
    const int64_t pair = vector / p.vectors;
    const int64_t inside = (vector - pair * p.vectors) * static_cast<int64_t>(sizeof(uint4));
    return p.pairs[2 * pair + side] * p.bytesPerBlock + p.offset + inside;
  };
  for (int64_t first = mine; first < total; first += kVectorsAtOnce * stride) {
    uint4 values[kVectorsAtOnce];
#pragma unroll
    for (int i = 0; i < kVectorsAtOnce; ++i) {
      const int64_t vector = first + i * stride;
      if (vector < total) values[i] = *reinterpret_cast<const uint4*>(p.from + placeOf(vector, 0));
    }
#pragma unroll
    for (int i = 0; i < kVectorsAtOnce; ++i) {
      const int64_t vector = first + i * stride;
      if (vector < total) *reinterpret_cast<uint4*>(p.to + placeOf(vector, 1)) = values[i];
    }
  }
}

}  // namespace perigee
