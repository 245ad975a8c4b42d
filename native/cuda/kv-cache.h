// Keys and values of all layers, in blocks.
//
// N blocks · L layers · K kv heads · P tokens of a block · D head dim
//
//   block   [L] layers, contiguous: one copy moves a block
//   layer   keys [K, P, D] · values [K, P, D] · where every token has scales of its own (i8, fp8):
//           key scales [K, P] bf16 · value scales [K, P] bf16 · zeros up to 16 bytes
//
// A head's tokens lie one behind the other, so that a warp reads the keys of a block in one stretch.
// src/devices/cuda/kv-cache.ts computes the same sizes.
#pragma once

#include "params.h"

namespace perigee {

constexpr int kScaleBytes = 2;

__host__ __device__ constexpr int elementBytes(Element element) {
  switch (element) {
    case Element::f32: return 4;
    case Element::f16:
    case Element::bf16: return 2;
    default: return 1;
  }
}

/// One layer of a pool, as ops get it.
struct KvLayer {
  uint8_t* blocks;        // the layer's part of block 0
  int64_t bytesPerBlock;  // from one block to the next, all layers
  Element element;
  int blockTokens;  // P
  int kvHeads;      // K
  int headDim;      // D
  // Calibrated scales of the layer; 0: tokens have their own, or none are needed.
  float keyScale;
  float valueScale;

  __device__ int64_t partBytes() const {
    return static_cast<int64_t>(kvHeads) * blockTokens * headDim * elementBytes(element);
  }

  __device__ uint8_t* block(int64_t id) const { return blocks + id * bytesPerBlock; }

  /// [D]: the key at `offset` of a block.
  __device__ uint8_t* key(int64_t id, int kvHead, int offset) const {
    return block(id) + row(kvHead, offset) * headDim * elementBytes(element);
  }

  /// [D]: the value at `offset` of a block.
  __device__ uint8_t* value(int64_t id, int kvHead, int offset) const {
    return key(id, kvHead, offset) + partBytes();
  }

  /// The scale of one token's key, where tokens have their own.
  __device__ Bf16* keyScaleOf(int64_t id, int kvHead, int offset) const {
    return reinterpret_cast<Bf16*>(block(id) + 2 * partBytes()) + row(kvHead, offset);
  }

  /// The scale of one token's value.
  __device__ Bf16* valueScaleOf(int64_t id, int kvHead, int offset) const {
    return keyScaleOf(id, kvHead, offset) + static_cast<int64_t>(kvHeads) * blockTokens;
  }

 private:
  __device__ int64_t row(int kvHead, int offset) const {
    return static_cast<int64_t>(kvHead) * blockTokens + offset;
  }
};

}  // namespace perigee
