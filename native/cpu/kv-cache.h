// Where keys and values of a block lie.
//
// N blocks · L layers · K kv heads · D head dim · Dv = D rounded up to 16 · P slots per block
//
//   [N][L][K] ( keys [D][P] , values [P][Dv] )      elements f32, f16 or bf16
//
// Blocks are outermost, so that copying, swapping or storing one block is one memcpy, and one layer
// of it is one contiguous slice. [L][N] would keep a layer denser in address space, but attention
// reads whole (block, layer) pieces of K * P * (D + Dv) elements either way.
//
// Keys are transposed inside a block: positions are neighbours, so scores of 16 positions are one
// vector and need no horizontal sum. Values are not: their sum runs over positions, their vectors
// over D. The padding of a value row is written with the row, and read, but never shown.
#pragma once

#include <cstddef>
#include <cstdint>

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

inline F32 widen(const float* from) { return load(from); }
inline F32 widen(const F16* from) { return loadF16(&from->bits); }
inline F32 widen(const Bf16* from) { return loadBf16(&from->bits); }

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

// One layer of the cache.
template <typename T>
class KvLayer {
 public:
  using Type = T;

  explicit KvLayer(const KvPool& pool)
      : blockTokens(pool.blockTokens),
        headDim(pool.headDim),
        valueStride(valueStrideOf(headDim)),
        headElements_(int64_t{blockTokens} * (headDim + valueStride)),
        layerElements_(headElements_ * pool.kvHeads),
        blockElements_(layerElements_ * pool.layers),
        layer_(static_cast<T*>(pool.data) + layerElements_ * pool.layer) {}

  // Writes one token's key and value, [D] each, rounded to the format; clears the value's padding.
  void write(int block, int offset, int kvHead, const float* key, const float* value) const {
    T* const column = keys(block, kvHead) + offset;
    for (int d = 0; d < headDim; ++d) narrow(column + int64_t{d} * blockTokens, key[d]);
    T* const row = values(block, kvHead) + int64_t{offset} * valueStride;
    for (int d = 0; d < headDim; ++d) narrow(row + d, value[d]);
    for (int d = headDim; d < valueStride; ++d) narrow(row + d, 0.0f);
  }

  // [D][P].
  T* keys(int block, int kvHead) const {
    return layer_ + blockElements_ * block + headElements_ * kvHead;
  }
  // [P][Dv].
  T* values(int block, int kvHead) const {
    return keys(block, kvHead) + int64_t{headDim} * blockTokens;
  }

  const int blockTokens;
  const int headDim;
  const int valueStride;

 private:
  const int64_t headElements_;
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
