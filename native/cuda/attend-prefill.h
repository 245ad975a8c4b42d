// Prefill attention on tensor cores by mma.sync, as in FlashAttention-2 (Dao, 2023).
//
//    block: kRows rows of one kv head        loop over KV tiles of kPositions positions
//      warp 0   rows 0..31   Q (shared)  |  keys   --mma--> scores (registers) -> weights
//      warp 1   rows 32..63              |  values --mma--> sums   (registers)
//      ...                               |  cp.async loads KV tile i + 1 during KV tile i
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over the positions
//          visible to row t
// Shapes   query, sinkQuery [T, H, D] f32, out [T, H, D] bf16; cache: kv-pool.h; queryStarts
//          [S + 1], contextLengths [S], blockTables [S, M]; treeMask [T, W]
// Work     One block per query tile, rows of one kv head (attend-prefill-tile.h). It loops over KV
//          tiles (attend-prefill-mask.h), which asynchronous copies load ahead
//          (attend-prefill-shared.h). A warp owns its rows: scores, weights and sums stay in its
//          registers, and only keys and values are shared between warps.
// Rounds   Queries and weights to bf16 (to f16 with an f16 cache); products and sums are f32. The
//          relative error of a weight is at most 2^-9, so an element of `out` is off by at most
//          2^-8 of the largest value that its row sees, and a score by 2^-9 of |query| . |key|
// Bound    compute: 4 * D operations per query head and visible pair of positions
// Checked  bench/gpu/cases/attend-prefill.mjs, test/devices/cuda/attend-prefill.test.ts
#pragma once

#include "attend-prefill-shared.h"

namespace perigee {

/// Filled by src/devices/cuda/ops/attend-prefill.ts.
struct PrefillParams {
  PackedRows out;  // [T, H * D] bf16
  AttentionInput input;
};

constexpr float kLog2OfE = 1.4426950408889634f;

/// A lane's part of its warp's rows: rows g and g + 8 of each 16 (tensor-core.h).
template <typename Shape>
struct PrefillRows {
  static constexpr int kTiles = Shape::kRowTiles;
  float scores[kTiles][Shape::kPositions / 8][4];
  float sums[kTiles][Shape::kDims / 8][4];
  float most[kTiles][2];
  float weight[kTiles][2];  // sums of weights over this lane's columns only
};

__device__ __forceinline__ int laneOf() { return static_cast<int>(threadIdx.x) % kWarp; }

/// First row of this warp in the block's tile.
template <typename Shape>
__device__ __forceinline__ int warpRow() {
  return static_cast<int>(threadIdx.x) / kWarp * Shape::kRowsOfWarp;
}

/// Loads this warp's query rows as 16-bit floats, zeros after the head dim. A warp reads only its
/// own rows. Every lane has kAtOnce loads of 32 bytes in flight; few where the sums occupy
/// registers.
template <typename Shape, int kAtOnce>
__device__ __forceinline__ void loadQueries(const AttentionInput& input, const PrefillTile& tile,
                                            const float* query) {
  using Half = typename Shape::Half;
  const int dims = input.cache.headDim;
  __syncwarp();
#pragma unroll kAtOnce
  for (int i = laneOf(); i < Shape::kRowsOfWarp * Shape::kChunks; i += kWarp) {
    const int row = warpRow<Shape>() + i / Shape::kChunks;
    const int chunk = i % Shape::kChunks;
    uint4 halves = make_uint4(0, 0, 0, 0);
    if (row < tile.count && chunk * 8 < dims) {
      const float4* const from = reinterpret_cast<const float4*>(
          query + tile.elementOf(row, input.heads, dims) + chunk * 8);
      const float4 low = from[0];
      const float4 high = from[1];
      halves = make_uint4(packPair(low.x, low.y, Half{}), packPair(low.z, low.w, Half{}),
                          packPair(high.x, high.y, Half{}), packPair(high.z, high.w, Half{}));
    }
    *reinterpret_cast<uint4*>(dynamicShared() + Shape::chunkAt(row, chunk)) = halves;
  }
  __syncwarp();
}

/// 1. scores = queries . keys for the positions of the KV tile.
template <typename Shape>
__device__ __forceinline__ void scoreTile(PrefillRows<Shape>& rows, int kvTile) {
  using Half = typename Shape::Half;
  const int lane = laneOf();
  const SharedAddress queries = sharedAddress(dynamicShared());
  const SharedAddress keys = queries + Shape::keysAt(kvTile);
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < Shape::kPositions / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) rows.scores[m][n][j] = 0.0f;
    }
  }
#pragma unroll
  for (int k = 0; k < Shape::kDims / 16; ++k) {
    unsigned query[Shape::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
      const int row = warpRow<Shape>() + m * 16 + lane % 16;
      loadMatrix(query[m], queries + Shape::chunkAt(row, 2 * k + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < Shape::kPositions / 8; n += 2) {
      unsigned pairs[4];
      const int position = n * 8 + lane / 16 * 8 + lane % 8;
      loadMatrix(pairs, keys + Shape::chunkAt(position, 2 * k + lane / 8 % 2));
      const unsigned first[2] = {pairs[0], pairs[1]};
      const unsigned second[2] = {pairs[2], pairs[3]};
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        multiplyAdd(rows.scores[m][n], query[m], first, Half{});
        multiplyAdd(rows.scores[m][n + 1], query[m], second, Half{});
      }
    }
  }
}

/// Calls `work(score, column)` for this lane's scores of row g + 8 * half of row tile m.
template <typename Shape, typename Work>
__device__ __forceinline__ void eachScore(PrefillRows<Shape>& rows, int m, int half,
                                          const Work& work) {
#pragma unroll
  for (int n = 0; n < Shape::kPositions / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) work(rows.scores[m][n][2 * half + j], n * 8 + j);
  }
}

/// cap * tanh(x / cap), where x and the result are base-2 exponents: multiplied by log2(e).
__device__ __forceinline__ float capped(float x, float capOverLn2, float twoOverCap) {
  const float square = powerOfTwo(x * twoOverCap);
  return capOverLn2 * (1.0f - __fdividef(2.0f, square + 1.0f));
}

/// 2. Applies the softmax scale, the keys' scales and the softcap; scores become exponents of 2.
/// Returns the factor that remains to be applied: without key scales and softcap nothing is applied
/// here, and the whole factor is fused into the exponentiation.
template <typename Shape>
__device__ __forceinline__ float scaleScores(PrefillRows<Shape>& rows, const AttentionInput& input,
                                             int kvTile) {
  const float factor = input.scale * kLog2OfE;
  if (!kScaled<typename Shape::Element> && input.softcap <= 0.0f) return factor;
  const int column = laneOf() % 4 * 2;
  const float* const keyScales = Shape::scales(kvTile);
  const float capOverLn2 = input.softcap * kLog2OfE;
  // 2^(2 x / cap) with x an exponent of 2 equals e^(2 y / cap) with y the score, as tanh needs.
  const float twoOverCap = 2.0f / input.softcap;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      eachScore(rows, m, half, [&](float& score, int at) {
        score *= factor;
        if constexpr (kScaled<typename Shape::Element>) score *= keyScales[at + column];
        if (input.softcap > 0.0f) score = capped(score, capOverLn2, twoOverCap);
      });
    }
  }
  return 1.0f;
}

/// 3. Masking: scores of positions that a row does not see become -infinity, even if they are NaN.
template <typename Shape>
__device__ void maskScores(PrefillRows<Shape>& rows, const AttentionInput& input,
                           const PrefillTile& tile, int start, bool sinks) {
  constexpr int kWords = Shape::kPositions / 32;
  const int lane = laneOf();
  const int row = min(warpRow<Shape>() + lane % Shape::kRowsOfWarp, tile.count - 1);
  const RowMask mask = input.rows.maskOf(tile.sequence, tile.token(row));
  uint32_t own[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) own[i] = maskWord(mask, start + 32 * i, sinks);

#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words[i] = __shfl_sync(0xffffffffu, own[i], m * 16 + half * 8 + lane / 4) >> (lane % 4 * 2);
      }
      eachScore(rows, m, half, [&](float& score, int at) {
        if (((words[at / 32] >> (at % 32)) & 1u) == 0) score = -infinity();
      });
    }
  }
}

/// 4. Online softmax: scores become weights relative to the maximum so far, and earlier sums are
/// rescaled to it.
template <typename Shape>
__device__ __forceinline__ void weighTile(PrefillRows<Shape>& rows, float factor) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
    float shrink[2];
    bool grows = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = rows.most[m][half];
      float most = before;
      eachScore(rows, m, half, [&](float& score, int) { most = fmaxf(most, score); });
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      rows.most[m][half] = most;
      grows |= most != before;

      // 2^(-inf) is 0. Where a row sees nothing the maximum is -inf itself, and the reference is 0.
      const float reference = most == -infinity() ? 0.0f : most * factor;
      shrink[half] = powerOfTwo(fmaf(before, factor, -reference));
      float sum = 0.0f;
      eachScore(rows, m, half, [&](float& score, int) {
        score = powerOfTwo(fmaf(score, factor, -reference));
        sum += score;
      });
      rows.weight[m][half] = fmaf(rows.weight[m][half], shrink[half], sum);
    }
    // The maximum is usually found early, so most KV tiles need no rescaling.
    if (!__any_sync(0xffffffffu, grows)) continue;
#pragma unroll
    for (int n = 0; n < Shape::kDims / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) rows.sums[m][n][j] *= shrink[j / 2];
    }
  }
}

/// Weights of 16 positions as the first mma operand, multiplied by the scales of their values.
template <typename Shape>
__device__ __forceinline__ void packWeights(unsigned (&to)[4], const float (&lower)[4],
                                            const float (&upper)[4], const float* valueScales) {
  using Half = typename Shape::Half;
  float2 low = make_float2(1.0f, 1.0f);
  float2 high = low;
  if constexpr (kScaled<typename Shape::Element>) {
    low = make_float2(valueScales[0], valueScales[1]);
    high = make_float2(valueScales[8], valueScales[9]);
  }
  to[0] = packPair(lower[0] * low.x, lower[1] * low.y, Half{});
  to[1] = packPair(lower[2] * low.x, lower[3] * low.y, Half{});
  to[2] = packPair(upper[0] * high.x, upper[1] * high.y, Half{});
  to[3] = packPair(upper[2] * high.x, upper[3] * high.y, Half{});
}

/// 5. sums += weights . values.
template <typename Shape>
__device__ __forceinline__ void sumTile(PrefillRows<Shape>& rows, int kvTile) {
  using Half = typename Shape::Half;
  const int lane = laneOf();
  const SharedAddress values = sharedAddress(dynamicShared()) + Shape::valuesAt(kvTile);
  const float* const valueScales = Shape::scales(kvTile) + Shape::kPositions + lane % 4 * 2;
#pragma unroll
  for (int k = 0; k < Shape::kPositions / 16; ++k) {
    unsigned weights[Shape::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
      packWeights<Shape>(weights[m], rows.scores[m][2 * k], rows.scores[m][2 * k + 1],
                         valueScales + 16 * k);
    }
#pragma unroll
    for (int n = 0; n < Shape::kDims / 8; n += 2) {
      unsigned pairs[4];
      loadMatrixTransposed(pairs, values + Shape::chunkAt(k * 16 + lane % 16, n + lane / 16));
      const unsigned first[2] = {pairs[0], pairs[1]};
      const unsigned second[2] = {pairs[2], pairs[3]};
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        multiplyAdd(rows.sums[m][n], weights[m], first, Half{});
        multiplyAdd(rows.sums[m][n + 1], weights[m], second, Half{});
      }
    }
  }
}

/// 6. Output rows, staged in the shared memory of the queries and stored as 16 bytes per lane.
template <typename Shape>
__device__ void storeRows(PrefillRows<Shape>& rows, const PrefillParams& p,
                          const PrefillTile& tile) {
  const int lane = laneOf();
  unsigned char* const shared = dynamicShared();
  __syncwarp();
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float weight = rows.weight[m][half];
      weight += __shfl_xor_sync(0xffffffffu, weight, 1);
      weight += __shfl_xor_sync(0xffffffffu, weight, 2);
      // Zeros for a row that sees nothing; NaN stays NaN.
      const float inverse = weight == 0.0f ? 0.0f : 1.0f / weight;
      const int row = warpRow<Shape>() + m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int n = 0; n < Shape::kDims / 8; ++n) {
        const float* const sums = rows.sums[m][n] + 2 * half;
        *reinterpret_cast<uint32_t*>(shared + Shape::chunkAt(row, n) + lane % 4 * 4) =
            packPair(sums[0] * inverse, sums[1] * inverse, Bf16{});
      }
    }
  }
  __syncwarp();
  const int dims = p.input.cache.headDim;
  Bf16* const out = reinterpret_cast<Bf16*>(p.out.memory);
  for (int i = lane; i < Shape::kRowsOfWarp * Shape::kChunks; i += kWarp) {
    const int row = warpRow<Shape>() + i / Shape::kChunks;
    const int chunk = i % Shape::kChunks;
    if (row >= tile.count || chunk * 8 >= dims) continue;
    *reinterpret_cast<uint4*>(out + tile.elementOf(row, p.input.heads, dims) + chunk * 8) =
        *reinterpret_cast<const uint4*>(shared + Shape::chunkAt(row, chunk));
  }
}

}  // namespace perigee
