// Memory layout of keys and values in the paged KV cache.
//
// N blocks · L layers · K kv heads · P slots per block · Dr = D elements, zero-padded to 16 bytes
//
//   [N][L][K] ( keys [P][Dr] , values [P][Dr] , scales )
//   i8, fp8   scales bf16: of keys [P], of values [P]; none where they are calibrated
//
// Blocks are the outermost dimension: copying, swapping or storing a block is one copy, and one
// layer of it is one contiguous slice, so blocks can also be moved layer by layer. Keys are not
// transposed as they are on the CPU: tensor cores take both operands of query . key with D
// innermost, asynchronous copies need rows of at least 16 bytes, and a thread that scores a
// position alone reads whole sectors of its key. The keys of one kv head are contiguous (P * 2 D
// bytes: 4 KiB for 16 slots of 128 in bf16) and its values follow them, because a thread block
// reads one kv head.
#pragma once

#include "kv-elements.h"
#include "packed-rows.h"

namespace perigee {

/// One layer of a cache (`layerParams` of src/devices/cuda/memory/kv-pool.ts).
struct KvLayer {
  uint8_t* data;  // of this layer in block 0
  int64_t blockBytes;
  int64_t headBytes;
  Element element;
  int blockTokens;
  int kvHeads;
  int headDim;
  int rowBytes;     // of one key or value, a multiple of 16
  int tokenScales;  // 1: per-token scales
  float keyScale;   // calibrated scales otherwise; 1 where the format needs none
  float valueScale;

  __device__ uint8_t* head(int block, int kvHead) const {
    return data + block * blockBytes + kvHead * headBytes;
  }

  /// Address of a key, [Dr].
  __device__ uint8_t* key(int block, int offset, int kvHead) const {
    return head(block, kvHead) + static_cast<int64_t>(offset) * rowBytes;
  }

  /// Byte offset from a token's key to its value.
  __device__ int64_t toValue() const { return static_cast<int64_t>(blockTokens) * rowBytes; }

  /// Scale of the key at `offset`; the scale of its value follows `blockTokens` elements later.
  __device__ Bf16* scales(int block, int offset, int kvHead) const {
    return reinterpret_cast<Bf16*>(head(block, kvHead) + 2 * toValue()) + offset;
  }
};

}  // namespace perigee
