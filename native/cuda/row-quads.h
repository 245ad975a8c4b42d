// A row held in the registers of a block, in quads: four adjacent columns, 16 bytes of f32.
//
// Thread i of B holds quads i, i + B, ... So a warp holds 128 adjacent columns, a quantisation
// group of an i8 row, in each of them.
#pragma once

#include "packed-rows.h"

namespace perigee {

constexpr int kQuad = 4;
static_assert(kWarp * kQuad == kGroupColumns, "a warp rounds a group");

/// Up to kQuads quads per thread of a row of `columns`, a multiple of four.
template <int kQuads>
struct RowQuads {
  float4 quads[kQuads];

  /// Calls `body(i, column)` for each quad i of this thread; `column` is its first, below
  /// `columns`.
  template <typename Body>
  __device__ static void forOwn(int columns, const Body& body) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int column = (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kQuad;
      if (column < columns) body(i, column);
    }
  }

  __device__ void load(const float* row, int columns) {
    forOwn(columns, [&](int i, int column) {
      quads[i] = *reinterpret_cast<const float4*>(row + column);
    });
  }

  /// The same with an evict-first hint, for rows that are not read again soon.
  __device__ void loadOnce(const float* row, int columns) {
    forOwn(columns, [&](int i, int column) {
      quads[i] = __ldcs(reinterpret_cast<const float4*>(row + column));
    });
  }

  __device__ void store(float* row, int columns) const {
    forOwn(columns, [&](int i, int column) {
      *reinterpret_cast<float4*>(row + column) = quads[i];
    });
  }

  /// Loads row `index` of packed memory from column `first` on, dequantised as by
  /// `PackedRows::load`. `first` and the row's length are multiples of four.
  __device__ void loadPacked(const PackedRows& from, int64_t index, int first) {
    const uint8_t* const bytes = from.row(index);
    switch (from.format) {
      case Format::bf16:
        loadBf16(reinterpret_cast<const Bf16*>(bytes) + first, from.columns - first);
        break;
      case Format::i8: loadI8(bytes, from.columns, first); break;
      default: load(reinterpret_cast<const float*>(bytes) + first, from.columns - first);
    }
  }

  /// Rounds the row to the format of `out`. All threads call it.
  __device__ void storePacked(const PackedRows& out, int64_t index) const {
    uint8_t* const bytes = out.row(index);
    switch (out.format) {
      case Format::bf16: storeBf16(reinterpret_cast<Bf16*>(bytes), out.columns); break;
      case Format::i8: storeI8(bytes, out.columns); break;
      default: store(reinterpret_cast<float*>(bytes), out.columns);
    }
  }

 private:
  struct alignas(8) FourHalves {
    Bf16 each[kQuad];
  };
  struct alignas(4) FourBytes {
    int8_t each[kQuad];
  };

  __device__ void loadBf16(const Bf16* row, int columns) {
    forOwn(columns, [&](int i, int column) {
      const auto halves = *reinterpret_cast<const FourHalves*>(row + column);
      quads[i] = {widen(halves.each[0]), widen(halves.each[1]), widen(halves.each[2]),
                  widen(halves.each[3])};
    });
  }

  __device__ void loadI8(const uint8_t* bytes, int columns, int first) {
    const float* const scales = reinterpret_cast<const float*>(bytes + scaleOffset(columns));
    forOwn(columns - first, [&](int i, int column) {
      const auto four = *reinterpret_cast<const FourBytes*>(bytes + first + column);
      const float scale = scales[(first + column) / kGroupColumns];
      const auto number = [&](int e) { return static_cast<float>(four.each[e]) * scale; };
      quads[i] = {number(0), number(1), number(2), number(3)};
    });
  }

  __device__ float4 orZeros(int i, int column, int columns) const {
    return column < columns ? quads[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }

  __device__ void storeBf16(Bf16* out, int columns) const {
    const int padded = static_cast<int>(packedRowBytes(Format::bf16, columns)) / 2;
    forOwn(padded, [&](int i, int column) {
      const float4 quad = orZeros(i, column, columns);
      *reinterpret_cast<FourHalves*>(out + column) = {narrowBf16(quad.x), narrowBf16(quad.y),
                                                      narrowBf16(quad.z), narrowBf16(quad.w)};
    });
  }

  /// The same rounding as `PackedRows::store`: f32 divisions, ties to even.
  __device__ void storeI8(uint8_t* bytes, int columns) const {
    int8_t* const out = reinterpret_cast<int8_t*>(bytes);
    float* const scales = reinterpret_cast<float*>(bytes + scaleOffset(columns));
    forOwn(groupCount(columns) * kGroupColumns, [&](int i, int column) {
      const float4 quad = orZeros(i, column, columns);
      const float most = fmaxf(fmaxf(fabsf(quad.x), fabsf(quad.y)),
                               fmaxf(fabsf(quad.z), fabsf(quad.w)));
      const float scale = __fdiv_rn(warpMax(most), kQuantMax);
      if (threadIdx.x % kWarp == 0) scales[column / kGroupColumns] = scale;
      const auto rounded = [&](float value) {
        const float quantized = scale == 0.0f ? 0.0f : rintf(__fdiv_rn(value, scale));
        return static_cast<int8_t>(fminf(fmaxf(quantized, -kQuantMax), kQuantMax));
      };
      if (column >= scaleOffset(columns)) return;
      *reinterpret_cast<FourBytes*>(out + column) = {rounded(quad.x), rounded(quad.y),
                                                     rounded(quad.z), rounded(quad.w)};
    });
  }
};

}  // namespace perigee
