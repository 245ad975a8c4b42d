// A KV tile of 16 positions in the registers of a warp, loaded from global memory straight into
// tensor core fragments.
//
// The inner dimension of a matrix product may be permuted if both operands use the same
// permutation, and so may the rows. So the fragments are not those that ldmatrix would produce, but
// what a lane gets by loads of 8 elements (16 bytes of bf16). With g = lane / 4 and t = lane % 4 a
// lane holds
//   keys     positions g and g + 8, elements 32 j + 8 t to 32 j + 8 t + 7: a k range of 32 makes
//            two mma operands
//   values   positions 2t, 2t + 1, 2t + 8, 2t + 9, elements 64 h + 8 g to 64 h + 8 g + 7: pairs of
//            positions form rows g and g + 8 of four mma operands
//
//   keys, j = 0        element 0..7   8..15   16..23  24..31
//   position g         t = 0          t = 1   t = 2   t = 3     each cell: a 16-byte load
//   position g + 8     t = 0          t = 1   t = 2   t = 3     of one lane with this g
//
// A warp load covers whole sectors. Loads in flight wait in registers: no shared memory and no
// barriers are needed. Measured memory throughput: bench/gpu/kernels.mjs.
#pragma once

#include "kv-elements.h"
#include "packed-rows.h"
#include "tensor-core.h"

namespace perigee {

/// The operand type that keys and values of `T` are widened to, exactly.
template <typename T>
struct OperandOf {
  using Type = Bf16;
};
template <>
struct OperandOf<F16> {
  using Type = F16;
};

/// 8 elements as stored.
template <typename T>
struct Eight {
  uint4 bits = {0, 0, 0, 0};

  __device__ void load(const uint8_t* from) { bits = *reinterpret_cast<const uint4*>(from); }

  /// Elements 2 i and 2 i + 1.
  __device__ unsigned pair(int i) const {
    return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
  }
};

/// 8 one-byte elements.
struct EightBytes {
  uint2 bits = {0, 0};

  __device__ void load(const uint8_t* from) { bits = *reinterpret_cast<const uint2*>(from); }

  /// Bytes 2 i and 2 i + 1, each in the low byte of a 16-bit half.
  __device__ unsigned halves(int i) const {
    const unsigned word = i < 2 ? bits.x : bits.y;
    const unsigned two = i % 2 == 0 ? word : word >> 16;
    return (two & 0xffu) | (two & 0xff00u) << 8;
  }
};

template <>
struct Eight<Q8> : EightBytes {
  /// In bf16, the bits of 128 plus a 7-bit fraction are the numbers 128 to 255. So an i8 number x
  /// is (128 + its lower 7 bits) - 128, or - 256 where its sign bit is set. The subtrahend is -128
  /// whose exponent takes the sign bit of x.
  __device__ unsigned pair(int i) const {
    const unsigned bytes = halves(i);
    const unsigned lower = (bytes & 0x007f007fu) | 0x43004300u;
    const unsigned less = (bytes & 0x00800080u) | 0xc300c300u;
    return multiplyAddPair(lower, 0x3f803f80u, less);  // lower * 1 + less
  }
};

template <>
struct Eight<Fp8> : EightBytes {
  /// The bits of e4m3, shifted, are a bf16 that is 2^120 times smaller, also for subnormal numbers.
  __device__ unsigned pair(int i) const {
    const unsigned bytes = halves(i);
    const unsigned small = (bytes & 0x00800080u) << 8 | (bytes & 0x007f007fu) << 4;
    return multiplyAddPair(small, 0x7b807b80u, 0x80008000u);  // small * 2^120 + -0
  }
};

/// Location of a KV tile.
struct TileSite {
  const uint8_t* keys;  // of the tile's first position
  int64_t toValues;     // offset from a key to its value
  int rowBytes;
  int headDim;
  int number;  // index of the tile in the sequence
};

/// A KV tile of `T`s with kDims elements per row; elements beyond headDim are zero.
template <typename T, int kDims>
struct KvTile {
  static constexpr int kKeyParts = kDims / 32;
  static constexpr int kValueParts = kDims / 64;

  Eight<T> keys[2][kKeyParts];
  Eight<T> values[4][kValueParts];

  __device__ static int lane() { return static_cast<int>(threadIdx.x % kWarp); }

  /// Positions in the tile whose keys or values this lane holds.
  __device__ static int keyPosition(int i) { return lane() / 4 + 8 * i; }
  __device__ static int valuePosition(int i) { return lane() % 4 * 2 + i % 2 + i / 2 * 8; }

  /// Positions for which `seen(position)` is false are not read and become zeros. kWhole: all
  /// positions are visible and rows have kDims elements.
  template <bool kWhole, typename Seen>
  __device__ void loadKeys(const TileSite& site, const Seen& seen) {
    const int first = lane() % 4 * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int position = keyPosition(i);
      const bool real = kWhole || seen(position);
      const uint8_t* const row = site.keys + position * site.rowBytes + first * sizeof(T);
#pragma unroll
      for (int j = 0; j < kKeyParts; ++j) {
        if (kWhole || (real && 32 * j + first < site.headDim)) {
          keys[i][j].load(row + 32 * j * sizeof(T));
        } else {
          keys[i][j] = Eight<T>();
        }
      }
    }
  }

  template <bool kWhole, typename Seen>
  __device__ void loadValues(const TileSite& site, const Seen& seen) {
    const int first = lane() / 4 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = valuePosition(i);
      const bool real = kWhole || seen(position);
      const uint8_t* const row =
          site.keys + site.toValues + position * site.rowBytes + first * sizeof(T);
#pragma unroll
      for (int h = 0; h < kValueParts; ++h) {
        if (kWhole || (real && 64 * h + first < site.headDim)) {
          values[i][h].load(row + 64 * h * sizeof(T));
        } else {
          values[i][h] = Eight<T>();
        }
      }
    }
  }
};

/// Query rows as the other operand: a lane holds row g of each set of 8 rows, elements as for keys.
template <typename Operand, int kDims, int kRowTiles>
struct DecodeQuery {
  unsigned pairs[kRowTiles][kDims / 32][4];

  /// `rowOf(row)` is the address of the row's f32 elements, null after the last row.
  template <typename RowOf>
  __device__ void load(const RowOf& rowOf, int headDim) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const float* const row = rowOf(8 * r + lane / 4);
#pragma unroll
      for (int j = 0; j < kDims / 32; ++j) {
        const int at = 32 * j + lane % 4 * 8;
        const bool real = row != nullptr && at < headDim;
        float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 high = low;
        if (real) {
          low = *reinterpret_cast<const float4*>(row + at);
          high = *reinterpret_cast<const float4*>(row + at + 4);
        }
        pairs[r][j][0] = packPair(low.x, low.y, Operand{});
        pairs[r][j][1] = packPair(low.z, low.w, Operand{});
        pairs[r][j][2] = packPair(high.x, high.y, Operand{});
        pairs[r][j][3] = packPair(high.z, high.w, Operand{});
      }
    }
  }
};

/// scores [16 positions, 8 rows] for each set of rows: a lane holds positions g (0 and 1) and g + 8
/// (2 and 3) of rows 2t and 2t + 1.
template <typename T, int kDims, int kRowTiles>
__device__ __forceinline__ void scoreTile(
    float (&scores)[kRowTiles][4], const KvTile<T, kDims>& tile,
    const DecodeQuery<typename OperandOf<T>::Type, kDims, kRowTiles>& query) {
  using Operand = typename OperandOf<T>::Type;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[r][i] = 0.0f;
  }
#pragma unroll
  for (int j = 0; j < kDims / 32; ++j) {
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      const Eight<T>&low = tile.keys[0][j], &high = tile.keys[1][j];
      const unsigned a[4] = {low.pair(half), high.pair(half), low.pair(half + 1),
                             high.pair(half + 1)};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const unsigned b[2] = {query.pairs[r][j][half], query.pairs[r][j][half + 1]};
        multiplyAdd(scores[r], a, b, Operand{});
      }
    }
  }
}

/// sums [kDims, 8 rows] += values times weights. In sums[r][4 h + i] a lane holds element 64 h + 8
/// g + 2 i (0 and 1) and the next one (2 and 3) of rows 2t and 2t + 1.
template <typename T, int kDims, int kRowTiles>
__device__ __forceinline__ void addValues(float (&sums)[kRowTiles][kDims / 16][4],
                                          const KvTile<T, kDims>& tile,
                                          const unsigned (&weights)[kRowTiles][2]) {
  using Operand = typename OperandOf<T>::Type;
#pragma unroll
  for (int h = 0; h < kDims / 64; ++h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned pairs[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) pairs[k] = tile.values[k][h].pair(i);
      const unsigned a[4] = {
          (pairs[0] & 0xffffu) | pairs[1] << 16, pairs[0] >> 16 | (pairs[1] & 0xffff0000u),
          (pairs[2] & 0xffffu) | pairs[3] << 16, pairs[2] >> 16 | (pairs[3] & 0xffff0000u)};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiplyAdd(sums[r][4 * h + i], a, weights[r], Operand{});
      }
    }
  }
}

}  // namespace perigee
