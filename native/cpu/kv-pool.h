// Memory layout of keys and values in the paged KV cache.
//
// N blocks · L layers · K kv heads · D head dim · Dv = D rounded up to 16 · P slots per block
//
//   [N][L][K] ( keys , values , scales )
//   f32, f16, fp8   keys [D][P]            values [P][Dv]
//   bf16, i8        keys [D / 2][P][2]     values [P / 2][Dv][2]   (P = 1: as f16)
//   fp8, i8         scales bf16: of keys [P], of values [P]; none where they are calibrated
//
//   block n:  | layer 0                     | layer 1                     | ...
//             | head 0: keys values scales  | head 0: keys values scales  |
//             | head 1: keys values scales  | head 1: keys values scales  |
//
// Blocks are the outermost dimension: copying, swapping or storing a block is one memcpy, and one
// layer of it is one contiguous slice. With [L][N] a layer would be denser in address space, but
// attention reads whole (block, layer) pieces of K * P * (D + Dv) elements either way.
//
// Keys are transposed inside a block: positions are adjacent, so the scores of 16 positions form
// one vector and need no horizontal sum. Values are not transposed: their sum runs over positions,
// so vectors run over D. bf16 and i8 interleave two neighbouring terms of a sum, as the dot-product
// instructions for pairs need them. The padding of a value row is written and read, but its results
// are not used. An odd D is padded to pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kv-quantize.h"
#include "params.h"
#include "simd.h"

namespace perigee {

// Positions that are scored together; a multiple of the vector length of every instruction set.
constexpr int kGroupTokens = 16;

// 16-bit floats as distinct types, so that kernels can be templates over the element type.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

inline void narrow(float* to, float value) { *to = value; }
inline void narrow(F16* to, float value) { to->bits = narrowF16(value); }
inline void narrow(Bf16* to, float value) { to->bits = narrowBf16(value); }

// One layer of a cache, as part of an op's params (layerParams in src/devices/cpu/kv-pool.ts).
struct KvLayerParams {
  void* data;  // of all layers
  Int element, layers, blockTokens, kvHeads, headDim;
  Int layer;
  Float keyScale, valueScale;  // calibrated per tensor; 0: per-token scales
};

// The same, converted to plain integers.
struct KvPool {
  void* data;
  Element element;
  int layers, blockTokens, kvHeads, headDim;
  int layer;
  bool tokenScales = false;
  float keyScale = 1.0f, valueScale = 1.0f;  // 1 with per-token scales
};

inline KvPool kvPoolOf(const KvLayerParams& params) {
  const auto whole = [](const Int& value) { return static_cast<int>(int64_t{value}); };
  KvPool pool = {params.data,           elementOf(params.element), whole(params.layers),
                 whole(params.blockTokens), whole(params.kvHeads),     whole(params.headDim),
                 whole(params.layer)};
  const bool scaled = pool.element == Element::i8 || pool.element == Element::fp8;
  pool.tokenScales = scaled && params.keyScale == 0.0f;
  if (scaled && !pool.tokenScales) {
    pool.keyScale = params.keyScale;
    pool.valueScale = params.valueScale;
  }
  return pool;
}

constexpr int valueStrideOf(int headDim) {
  return (headDim + kGroupTokens - 1) / kGroupTokens * kGroupTokens;
}

// How many neighbouring terms of a sum are interleaved.
template <typename T>
constexpr int kTogether = std::is_same_v<T, Bf16> || std::is_same_v<T, Q8> ? 2 : 1;

// Layout of the keys and values of one kv head in one block of P tokens.
template <typename T>
class KvBlockLayout {
 public:
  KvBlockLayout(int headDim, int blockTokens, bool tokenScales)
      : headDim(headDim),
        blockTokens(blockTokens),
        valueStride(valueStrideOf(headDim)),
        keyStride(blockTokens * kTogether<T>),
        keyElements(evenIfScaled((headDim + kTogether<T> - 1) / kTogether<T> * keyStride)),
        scalesAt(keyElements + int64_t{blockTokens} * valueStride),
        elements(scalesAt + (tokenScales ? 2 * blockTokens * int64_t{sizeof(uint16_t)} : 0)),
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
  const int keyStride;        // between two dims of a key, or two pairs of dims, in elements
  const int64_t keyElements;  // offset of the values
  const int64_t scalesAt;     // offset of the scales
  const int64_t elements;     // in total, scales included; a scaled element is one byte
  const int valuesTogether;   // positions whose values are stored in pairs; 1 where a block has one

 private:
  // The scales are 16-bit, so they start at an even byte offset.
  static constexpr int64_t evenIfScaled(int64_t count) {
    return kScaled<T> ? (count + 1) / 2 * 2 : count;
  }
};

// One layer of the cache.
template <typename T>
class KvLayer {
 public:
  using Type = T;

  explicit KvLayer(const KvPool& pool)
      : layout(pool.headDim, pool.blockTokens, pool.tokenScales),
        tokenScales(pool.tokenScales),
        layerElements_(layout.elements * pool.kvHeads),
        blockElements_(layerElements_ * pool.layers),
        layer_(static_cast<T*>(pool.data) + layerElements_ * pool.layer),
        keyScale_(pool.keyScale),
        valueScale_(pool.valueScale) {}

  T* keys(int block, int kvHead) const {
    return layer_ + blockElements_ * block + layout.elements * kvHead;
  }
  T* values(int block, int kvHead) const { return keys(block, kvHead) + layout.keyElements; }

  // [P] bf16 each; only with per-token scales.
  uint16_t* keyScales(int block, int kvHead) const {
    return reinterpret_cast<uint16_t*>(keys(block, kvHead) + layout.scalesAt);
  }
  uint16_t* valueScales(int block, int kvHead) const {
    return keyScales(block, kvHead) + layout.blockTokens;
  }

  // Writes one token's key and value, [D] each, in the cache's format; zeroes the padding.
  void write(int block, int offset, int kvHead, const float* key, const float* value) const {
    if constexpr (kScaled<T>) {
      writeScaled(block, offset, kvHead, key, value);
    } else {
      writeFloats(block, offset, kvHead, key, value);
    }
  }

  const KvBlockLayout<T> layout;
  const bool tokenScales;

 private:
  void writeFloats(int block, int offset, int kvHead, const float* key, const float* value) const {
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

  void writeScaled(int block, int offset, int kvHead, const float* key, const float* value) const {
    float keyScale = keyScale_, valueScale = valueScale_;
    if (tokenScales) {
      const uint16_t ofKey = scaleOf<T>(key, layout.headDim);
      const uint16_t ofValue = scaleOf<T>(value, layout.headDim);
      keyScales(block, kvHead)[offset] = ofKey;
      valueScales(block, kvHead)[offset] = ofValue;
      keyScale = widenBf16(ofKey);
      valueScale = widenBf16(ofValue);
    }
    auto* const toKeys = reinterpret_cast<uint8_t*>(keys(block, kvHead));
    quantizeVector<T>(key, layout.headDim, keyScale, [&](int d, uint8_t code) {
      toKeys[layout.keyIndex(d, offset)] = code;
    });
    if (layout.headDim % kTogether<T> != 0) toKeys[layout.keyIndex(layout.headDim, offset)] = 0;
    auto* const row = reinterpret_cast<uint8_t*>(values(block, kvHead)) +
                      layout.valueIndex(offset, 0);
    const int64_t step = layout.valuesTogether;
    quantizeVector<T>(value, layout.headDim, valueScale,
                      [&](int d, uint8_t code) { row[d * step] = code; });
    for (int d = layout.headDim; d < layout.valueStride; ++d) row[d * step] = 0;
  }

  const int64_t layerElements_;
  const int64_t blockElements_;
  T* const layer_;
  const float keyScale_, valueScale_;
};

// Calls `work(KvLayer<T>)` with the cache's element type.
template <typename Work>
void withKvLayer(const KvPool& pool, const Work& work) {
  switch (pool.element) {
    case Element::f32: return work(KvLayer<float>(pool));
    case Element::f16: return work(KvLayer<F16>(pool));
    case Element::bf16: return work(KvLayer<Bf16>(pool));
    case Element::i8: return work(KvLayer<Q8>(pool));
    case Element::fp8: return work(KvLayer<Fp8>(pool));
  }
}

}  // namespace perigee
