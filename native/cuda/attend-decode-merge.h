// Merging of partial results, as in flash-decoding. A partial result is the online softmax state of
// a query tile's rows over some of its KV tiles: maximum, sum of weights, weighted values. The
// warps of a block merge their partial results in shared memory. Blocks write theirs to scratch
// memory, where the last block merges them.
//
// In stream-K order (attend-decode.h) at most one query tile of a warp begins in an earlier warp of
// the same block. The warp stores its partial result of that query tile in its slot. The warp in
// which the query tile begins, in this block, adds the slots. At most one query tile of a block
// begins in an earlier block (partial result 0), and at most one continues in the next block
// (partial result 1).
#pragma once

#include "attend-decode-warp.h"

namespace perigee {

/// Packs two numbers as neighbours of a bf16 row.
__device__ __forceinline__ unsigned packBf16(float lower, float upper) {
  return packPair(lower, upper, Bf16{});
}

/// Factor from a sum of weighted values to their average; 0 for a row that sees nothing.
__device__ __forceinline__ float averageOf(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

/// Merged maximum, sum and four adjacent elements of one row.
struct MergedQuad {
  float max = -infinity();
  float sum = 0.0f;
  float4 values = {0.0f, 0.0f, 0.0f, 0.0f};

  /// Adds the partial results [0, count) of row `row`, four elements from `dim` on. `partialOf(i)`
  /// is partial result i. Several are loaded at a time, so that their loads are in flight together.
  template <typename PartialOf>
  __device__ void add(int count, int row, int dim, const PartialOf& partialOf) {
    constexpr int kTogether = 8;
    for (int start = 0; start < count; start += kTogether) {
      float2 maxAndSum[kTogether];
      float4 quads[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        maxAndSum[i] = make_float2(-infinity(), 0.0f);
        quads[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (start + i >= count) continue;
        const auto* const partial = partialOf(start + i);
        maxAndSum[i] = partial->maxAndSum[row];
        quads[i] = *reinterpret_cast<const float4*>(&partial->values[row][dim]);
      }
      float most = max;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) most = fmaxf(most, maxAndSum[i].x);
      const float base = most == -infinity() ? 0.0f : most;
      const float shrink = powerOfTwo(max - base);
      max = most;
      sum *= shrink;
      values = make_float4(values.x * shrink, values.y * shrink, values.z * shrink,
                           values.w * shrink);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const float grow = powerOfTwo(maxAndSum[i].x - base);
        sum += maxAndSum[i].y * grow;
        values = make_float4(values.x + quads[i].x * grow, values.y + quads[i].y * grow,
                             values.z + quads[i].z * grow, values.w + quads[i].w * grow);
      }
    }
  }

  /// Stores the four normalised elements.
  __device__ void store(Bf16* to) const {
    const float by = averageOf(sum);
    *reinterpret_cast<uint2*>(to) = uint2{packBf16(values.x * by, values.y * by),
                                          packBf16(values.z * by, values.w * by)};
  }
};

/// A partial result of a query tile: for each row maximum, sum and weighted values [kDims].
template <int kDims, int kRowTiles>
struct alignas(16) PartialResult {
  static constexpr int kRows = 8 * kRowTiles;
  using Sums = DecodeSums<kDims, kRowTiles>;

  float2 maxAndSum[kRows];  // maximum, sum of weights
  float values[kRows][kDims];

  /// Calls `visit(row, dim, r, c, h)` for each run of 8 elements that this lane holds: row `row`,
  /// from `dim` on.
  template <typename Visit>
  __device__ static void forOwn(const Visit& visit) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int h = 0; h < kDims / 64; ++h) {
          visit(8 * r + lane % 4 * 2 + c, 64 * h + lane / 4 * 8, r, c, h);
        }
      }
    }
  }

  /// Stores the warp's sums of `count` rows.
  __device__ void store(const Sums& sums, int count) {
    forOwn([&](int row, int dim, int r, int c, int h) {
      if (row >= count) return;
      if (dim == 0) maxAndSum[row] = make_float2(sums.max[r][c], sums.sum[r][c]);
      float4* const to = reinterpret_cast<float4*>(&values[row][dim]);
      const auto& from = sums.values[r];
      to[0] = make_float4(from[4 * h][c], from[4 * h][2 + c], from[4 * h + 1][c],
                          from[4 * h + 1][2 + c]);
      to[1] = make_float4(from[4 * h + 2][c], from[4 * h + 2][2 + c], from[4 * h + 3][c],
                          from[4 * h + 3][2 + c]);
    });
  }

  __device__ void storeQuad(const MergedQuad& merged, int row, int dim) {
    if (dim == 0) maxAndSum[row] = make_float2(merged.max, merged.sum);
    *reinterpret_cast<float4*>(&values[row][dim]) = merged.values;
  }

  /// Adds this partial result to a warp's sums.
  __device__ void addTo(Sums& sums, int count) const {
    float grow[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      float shrink[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int row = 8 * r + static_cast<int>(threadIdx.x) % 4 * 2 + c;
        const float2 own = row < count ? maxAndSum[row] : make_float2(-infinity(), 0.0f);
        const float most = fmaxf(sums.max[r][c], own.x);
        const float base = most == -infinity() ? 0.0f : most;
        shrink[c] = powerOfTwo(sums.max[r][c] - base);
        grow[r][c] = powerOfTwo(own.x - base);
        sums.max[r][c] = most;
      }
      sums.shrink(r, shrink);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int row = 8 * r + static_cast<int>(threadIdx.x) % 4 * 2 + c;
        if (row < count) sums.sum[r][c] += maxAndSum[row].y * grow[r][c];
      }
    }
    forOwn([&](int row, int dim, int r, int c, int h) {
      if (row >= count) return;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums.values[r][4 * h + i / 2][i % 2 * 2 + c] += values[row][dim + i] * grow[r][c];
      }
    });
  }
};

/// Normalises a warp's sums and stores `count` output rows. `rowOf(row)` is the row's address, [D]
/// bf16.
template <int kDims, int kRowTiles, typename RowOf>
__device__ __forceinline__ void storeRows(const DecodeSums<kDims, kRowTiles>& sums, int count,
                                          int headDim, const RowOf& rowOf) {
  PartialResult<kDims, kRowTiles>::forOwn([&](int row, int dim, int r, int c, int h) {
    if (row >= count || dim >= headDim) return;
    const float by = averageOf(sums.sum[r][c]);
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto& from = sums.values[r][4 * h + i];
      pairs[i] = packBf16(from[c] * by, from[2 + c] * by);
    }
    *reinterpret_cast<uint4*>(rowOf(row) + dim) =
        make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  });
}

/// Merges partial results [0, count), given by `partialOf(i)`, and calls `take(merged, row, dim)`
/// for every four elements of `rows` rows. All threads of the block call it.
template <int kDims, typename PartialOf, typename Take>
__device__ __forceinline__ void mergePartials(int count, int rows, const PartialOf& partialOf,
                                              const Take& take) {
  constexpr int kQuads = kDims / 4;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kQuads; i += blockDim.x) {
    const int row = i / kQuads;
    const int dim = i % kQuads * 4;
    MergedQuad merged;
    merged.add(count, row, dim, partialOf);
    take(merged, row, dim);
  }
}

}  // namespace perigee
