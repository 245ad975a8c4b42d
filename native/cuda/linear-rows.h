// Matrix product of a few rows with rows of weights by one warp; used by linear.cu and the experts.
//
//    weight row n   | c0 | c1 | ... | c31 | c32 | ...      chunks of 16 bytes
//    lane             0    1   ...   31    0             each lane: all rows of x, 2 outputs
//    then: sums of the 32 lanes added by warp shuffles
//
// Formats  f32, bf16: products and sums in f32. i8: integer products of 16 columns at a time,
//          multiplied by both scales and summed in f32
// Order    A lane sums every 32nd chunk of 16 bytes; then lanes are added in pairs. The order
//          depends only on the columns, so a row's result does not depend on the other rows.
#pragma once

#include "packed-rows.h"

namespace perigee {

/// Maximum rows that a warp multiplies at once; each weight is read once for all of them.
constexpr int kLinearRows = 8;
/// Outputs per warp; they share the loads of x.
constexpr int kWarpOutputs = 2;
constexpr int kLinearWarps = 8;
constexpr int kBlockOutputs = kWarpOutputs * kLinearWarps;

/// A compile-time constant, as a type.
template <int kNumber>
struct Constant {
  static constexpr int kValue = kNumber;
};

/// f32 rows are 16-byte aligned only if the columns are a multiple of 4; otherwise kColumns is 1.
template <int kColumns>
struct F32Chunks {
  struct Chunk {
    float values[kColumns];
  };
  __device__ static int countOf(int columns) { return columns / kColumns; }
  __device__ static Chunk load(const uint8_t* row, int, int chunk) {
    const float* const from = reinterpret_cast<const float*>(row) + chunk * kColumns;
    if constexpr (kColumns == 4) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      return {{four.x, four.y, four.z, four.w}};
    } else {
      return {{*from}};
    }
  }
  __device__ static float add(float sum, const Chunk& x, const Chunk& weight) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sum = fmaf(x.values[i], weight.values[i], sum);
    return sum;
  }
};

struct Bf16Chunks {
  struct Chunk {
    float values[8];
  };
  /// Rows are zero-padded to a whole chunk.
  __device__ static int countOf(int columns) { return (columns + 7) / 8; }
  __device__ static Chunk load(const uint8_t* row, int, int chunk) {
    const uint4 bits = reinterpret_cast<const uint4*>(row)[chunk];
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    Chunk out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out.values[2 * i] = __uint_as_float(words[i] << 16);
      out.values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
    return out;
  }
  __device__ static float add(float sum, const Chunk& x, const Chunk& weight) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(x.values[i], weight.values[i], sum);
    return sum;
  }
};

struct I8Chunks {
  struct Chunk {
    int words[4];
    float scale;
  };
  __device__ static int countOf(int columns) { return (columns + 15) / 16; }
  __device__ static Chunk load(const uint8_t* row, int columns, int chunk) {
    const int4 words = reinterpret_cast<const int4*>(row)[chunk];
    const float* const scales = reinterpret_cast<const float*>(row + scaleOffset(columns));
    return {{words.x, words.y, words.z, words.w}, scales[chunk / (kGroupColumns / 16)]};
  }
  __device__ static float add(float sum, const Chunk& x, const Chunk& weight) {
    int products = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) products = __dp4a(x.words[i], weight.words[i], products);
    return fmaf(static_cast<float>(products), x.scale * weight.scale, sum);
  }
};

/// Sums of kWarpOutputs weight rows times `kRows` rows of x, in all lanes. `xRow(r)` is row r.
template <typename Chunks, int kRows, typename RowAt>
__device__ __forceinline__ void multiplyRows(const PackedRows& weight, int output, int outputs,
                                             const RowAt& xRow, float (*sums)[kRows]) {
  const uint8_t* weightRows[kWarpOutputs];
#pragma unroll
  for (int o = 0; o < kWarpOutputs; ++o) {
    // Indices after the last row are clamped; the sum is not stored.
    weightRows[o] = weight.row(min(output + o, outputs - 1));
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[o][r] = 0.0f;
  }
  const uint8_t* xRows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) xRows[r] = xRow(r);

  const int chunks = Chunks::countOf(weight.columns);
#pragma unroll 2
  for (int chunk = threadIdx.x % kWarp; chunk < chunks; chunk += kWarp) {
    typename Chunks::Chunk w[kWarpOutputs];
#pragma unroll
    for (int o = 0; o < kWarpOutputs; ++o) {
      w[o] = Chunks::load(weightRows[o], weight.columns, chunk);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto x = Chunks::load(xRows[r], weight.columns, chunk);
#pragma unroll
      for (int o = 0; o < kWarpOutputs; ++o) sums[o][r] = Chunks::add(sums[o][r], x, w[o]);
    }
  }

#pragma unroll
  for (int o = 0; o < kWarpOutputs; ++o) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int lane = kWarp / 2; lane > 0; lane /= 2) {
        sums[o][r] += __shfl_xor_sync(0xffffffffu, sums[o][r], lane);
      }
    }
  }
}

/// Multiplies `rows` (at most kLinearRows) rows and calls store(row, output, sum) once for each
/// sum, on some lane. `xRow(row)` is called only for rows below `rows`.
template <typename Chunks, typename RowAt, typename Store>
__device__ __forceinline__ void linearTile(const PackedRows& weight, int output, int outputs,
                                           int rows, const RowAt& xRow, const Store& store) {
  const auto run = [&](auto constant) {
    constexpr int kRows = decltype(constant)::kValue;
    float sums[kWarpOutputs][kRows];
    multiplyRows<Chunks, kRows>(
        weight, output, outputs, [&](int r) { return xRow(min(r, rows - 1)); }, sums);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int o = 0; o < kWarpOutputs; ++o) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const bool mine = lane == (o * kRows + r) % kWarp;
        if (mine && r < rows && output + o < outputs) store(r, output + o, sums[o][r]);
      }
    }
  };
  if (rows == 1) {
    run(Constant<1>{});
  } else if (rows == 2) {
    run(Constant<2>{});
  } else if (rows <= 4) {
    run(Constant<4>{});
  } else {
    run(Constant<kLinearRows>{});
  }
}

/// Calls `work` with the chunk type of a format.
template <typename Work>
__device__ __forceinline__ void withChunks(const PackedRows& rows, const Work& work) {
  switch (rows.format) {
    case Format::bf16: work(Bf16Chunks{}); break;
    case Format::i8: work(I8Chunks{}); break;
    default:
      if (rows.columns % 4 == 0) {
        work(F32Chunks<4>{});
      } else {
        work(F32Chunks<1>{});
      }
  }
}

}  // namespace perigee
