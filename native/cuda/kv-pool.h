// Where keys and values of a block lie.
//
// N blocks · L layers · K kv heads · P slots per block · Dr = D elements, zeros up to 16 bytes
//
//   [N][L][K] ( keys [P][Dr] , values [P][Dr] , scales )
//   i8, fp8   scales bf16: of keys [P], of values [P]; none where they are calibrated
//
// Blocks are outermost, so that copying, swapping or storing one block is one copy, and one layer
// of it is one contiguous slice: tiers can move layer by layer. Keys are not transposed as on the
// cpu: tensor cores take both operands of query . key with D innermost, asynchronous copies want
// rows of 16 bytes and more, and a thread that scores a position alone reads whole sectors of its
// key. The keys of one kv head lie together (P * 2 D bytes: 4 KiB for 16 slots of 128 in bf16), and
// its values behind them, because a block of threads reads one kv head.
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
  int tokenScales;  // every token has scales of its own
  float keyScale;   // else calibrated; 1 where the format needs none
  float valueScale;

  __device__ uint8_t* head(int block, int kvHead) const {
    return data + block * blockBytes + kvHead * headBytes;
  }

  /// [Dr].
  __device__ uint8_t* key(int block, int offset, int kvHead) const {
    return head(block, kvHead) + static_cast<int64_t>(offset) * rowBytes;
  }

  /// From a token's key to its value.
  __device__ int64_t toValue() const { return static_cast<int64_t>(blockTokens) * rowBytes; }

  /// Of the key at `offset`; that of the value lies `blockTokens` behind it.
  __device__ Bf16* scales(int block, int offset, int kvHead) const {
    return reinterpret_cast<Bf16*>(head(block, kvHead) + 2 * toValue()) + offset;
  }
};

}  // namespace perigee
