// Copies KV cache blocks, all layers of each, for copy-on-write and reuse of partly matching
// blocks.
//
// Shapes   pairs [n, 2] of block ids, n <= kPairsMax; a block has bytesPerBlock bytes
// Work     blockIdx.y is the pair, blockIdx.x a range of its bytes
// Bound    memory: each byte read and written once
// Checked  bench/gpu/smoke.mjs, copyBlocks
//
// The pairs of a launch run in any order, so no pair may read or write what another one writes;
// src/devices/cuda/ops/move-blocks.ts splits a list into such launches. The ids are kernel
// arguments, so no upload is needed. A captured CUDA graph would keep the ids of its capture.
#include "params.h"

namespace perigee {

constexpr int kPairsMax = 128;

struct CopyBlocksParams {
  uint8_t* blocks;
  int64_t bytesPerBlock;
  int pairs[2 * kPairsMax];
};

PERIGEE_KERNEL perigee_copy_blocks(const __grid_constant__ CopyBlocksParams p) {
  joinStream();
  const int64_t from = p.pairs[2 * blockIdx.y];
  const int64_t to = p.pairs[2 * blockIdx.y + 1];
  const uint8_t* const source = p.blocks + from * p.bytesPerBlock;
  uint8_t* const target = p.blocks + to * p.bytesPerBlock;

  // Blocks are aligned to and a multiple of 16 bytes (src/devices/cuda/memory/kv-pool.ts).
  const int64_t count = p.bytesPerBlock / static_cast<int64_t>(sizeof(uint4));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<const uint4*>(source)[i];
  }
}

}  // namespace perigee
