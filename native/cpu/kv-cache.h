// Where keys and values of a block lie.
//
// N blocks · L layers · K kv heads · D head dim · Dv = D rounded up to 16 · P slots per block
//
//   [N][L][K] ( keys , values )       elements f32, f16 or bf16
//   f32, f16   keys [D][P]            values [P][Dv]
//   bf16       keys [D / 2][P][2]     values [P / 2][Dv][2]   (P = 1: as f16)
//
// Blocks are outermost, so that copying, swapping or storing one block is one memcpy, and one layer
// of it is one contiguous slice. [L][N] would keep a layer denser in address space, but attention
// reads whole (block, layer) pieces of K * P * (D + Dv) elements either way.
//
// Keys are transposed inside a block: positions are neighbours, so scores of 16 positions are one
// vector and need no horizontal sum. Values are not: their sum runs over positions, their vectors
// over D. bf16 keeps the two neighbours of a sum together, as the processor's instruction for pairs
// of products wants them. The padding of a value row is written with the row, and read, but never
// shown; an odd D is padded to pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "params.h"
#include "simd.h"

namespace perigee {

// Positions that are scored together; a multiple of every ISA's vector.
constexpr int kGroupTokens = 16;

// 16-bit floats as types of their own, so that kernels are templates over the element.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

inline void narrow(float* to, float value) { *to = value; }
inline void narrow(F16* to, float value) { to->bits = narrowF16(value); }
inline void narrow(Bf16* to, float value) { to->bits = narrowBf16(value); }

// One layer of a cache, as part of an op's params (layerParams in src/devices/cpu/kv-cache.ts).
struct KvLayerParams {
  void* data;  // of all layers
  Int element, layers, blockTokens, kvHeads, headDim;
  Int layer;
};

// The same in plain numbers.
struct KvPool {
  void* data;
  Element element;
  int layers, blockTokens, kvHeads, headDim;
  int layer;
};

inline KvPool kvPoolOf(const KvLayerParams& params) {
  const auto whole = [](const Int& value) { return static_cast<int>(int64_t{value}); };
  return {params.data,           elementOf(params.element), whole(params.layers),
          whole(params.blockTokens), whole(params.kvHeads),     whole(params.headDim),
          whole(params.layer)};
}

constexpr int valueStrideOf(int headDim) {
  return (headDim + kGroupTokens - 1) / kGroupTokens * kGroupTokens;
}

// Neighbours of a sum that lie together.
template <typename T>
constexpr int kTogether = std::is_same_v<T, Bf16> ? 2 : 1;

// Keys and values of one kv head in one block of P tokens.
template <typename T>
class KvBlockLayout {
 public:
  KvBlockLayout(int headDim, int blockTokens)
      : headDim(headDim),
        blockTokens(blockTokens),
        valueStride(valueStrideOf(headDim)),
        keyStride(blockTokens * kTogether<T>),
        keyElements((headDim + kTogether<T> - 1) / kTogether<T> * int64_t{keyStride}),
        elements(keyElements + int64_t{blockTokens} * valueStride),
        valuesTogether(blockTokens % kTogether<T> == 0 ? kTogether<T> : 1) {}

  int64_t keyIndex(int d, int offset) const {
    return d / kTogether<T> * int64_t{keyStride} + offset * kTogether<T> + d % kTogether<T>;
  }
  int64_t valueIndex(int offset, int d) const {
    const int64_t row = offset / valuesTogether * int64_t{valueStride};
    return (row + d) * valuesTogether + offset % valuesTogether;
  }

  const int headDim;
  const int blockTokens;
  const int valueStride;      // Dv
  const int keyStride;        // between two dims of a key, or two pairs of dims
  const int64_t keyElements;  // values lie behind them
  const int64_t elements;     // keys and values
  const int valuesTogether;   // positions whose values lie in pairs; 1 where a block has one
};

// One layer of the cache.
template <typename T>
class KvLayer {
 public:
  using Type = T;

  explicit KvLayer(const KvPool& pool)
      : layout(pool.headDim, pool.blockTokens),
        layerElements_(layout.elements * pool.kvHeads),
        blockElements_(layerElements_ * pool.layers),
        layer_(static_cast<T*>(pool.data) + layerElements_ * pool.layer) {}

  T* keys(int block, int kvHead) const {
    return layer_ + blockElements_ * block + layout.elements * kvHead;
  }
  T* values(int block, int kvHead) const { return keys(block, kvHead) + layout.keyElements; }

  // Writes one token's key and value, [D] each, rounded to the format; clears the padding.
  void write(int block, int offset, int kvHead, const float* key, const float* value) const {
    T* keyPair = keys(block, kvHead) + layout.keyIndex(0, offset);
    for (int d = 0; d < layout.headDim; d += kTogether<T>, keyPair += layout.keyStride) {
      narrow(keyPair, key[d]);
      if (kTogether<T> == 2) narrow(keyPair + 1, d + 1 < layout.headDim ? key[d + 1] : 0.0f);
    }
    T* const row = values(block, kvHead) + layout.valueIndex(offset, 0);
    const int64_t step = layout.valuesTogether;
    for (int d = 0; d < layout.headDim; ++d) narrow(row + d * step, value[d]);
    for (int d = layout.headDim; d < layout.valueStride; ++d) narrow(row + d * step, 0.0f);
  }

  const KvBlockLayout<T> layout;

 private:
  const int64_t layerElements_;
  const int64_t blockElements_;
  T* const layer_;
};

// Calls `work(KvLayer<T>)` with the element type of the cache.
template <typename Work>
void withKvLayer(const KvPool& pool, const Work& work) {
  switch (pool.element) {
    case Element::f32: return work(KvLayer<float>(pool));
    case Element::f16: return work(KvLayer<F16>(pool));
    case Element::bf16: return work(KvLayer<Bf16>(pool));
  }
}

}  // namespace perigee
