// Bidirectional attention of a tile of query rows to its sequence, tile of keys by tile of keys, on
// f32 units with everything in registers and shared memory.
//
//    256 threads, 16 x 16:  each scores 4 rows by kKeysEach keys, then sums 4 rows by kDimsEach
//                           dimensions over the tile's values
//
// Order  Tiles of keys begin at fixed positions of the sequence, and each sum runs in their order.
//        So a row's result has the same bits in whatever batch it is computed: keys outside of its
//        reach weigh 0.
// Source Dao 2023, "FlashAttention-2", 3.1: the output is scaled once, behind the last tile.
#pragma once

#include "attention-rows.h"
#include "attention-segment.h"
#include "dynamic-shared.h"

namespace perigee {

constexpr int kEncoderRows = 64;
constexpr int kEncoderSide = 16;
constexpr int kEncoderThreads = kEncoderSide * kEncoderSide;
constexpr int kRowsEach = kEncoderRows / kEncoderSide;

/// Sizes for heads of at most kDims dimensions; `tileBytes` of
/// src/devices/cuda/ops/encoder-attention.ts repeats the sum.
template <int kDims>
struct EncoderShape {
  static constexpr int kKeys = kDims > 64 ? 32 : 64;
  static constexpr int kKeysEach = kKeys / kEncoderSide;
  static constexpr int kDimsEach = kDims / kEncoderSide;
  /// Neighbouring dimensions of a thread; it has kDimsEach / kRun such runs.
  static constexpr int kRun = kDimsEach < 4 ? kDimsEach : 4;
  /// Four more floats than needed: neighbouring rows begin in other banks.
  static constexpr int kRowStride = kEncoderRows + 4;
  static constexpr int kKeyStride = kKeys + 4;
  static constexpr int kQueryFloats = kDims * kRowStride;
  static constexpr int kKeyFloats = kDims * kKeyStride;
  static constexpr int kWeightFloats = kKeys * kRowStride;
};

/// `kCount` neighbouring floats by one load; aligned to their size.
template <int kCount>
__device__ __forceinline__ void loadRun(const float* from, float* values) {
  if constexpr (kCount == 4) {
    const float4 run = *reinterpret_cast<const float4*>(from);
    values[0] = run.x;
    values[1] = run.y;
    values[2] = run.z;
    values[3] = run.w;
  } else {
    static_assert(kCount == 2, "runs of two or four");
    const float2 run = *reinterpret_cast<const float2*>(from);
    values[0] = run.x;
    values[1] = run.y;
  }
}

/// Shared memory of a block.
template <int kDims>
struct EncoderTile {
  using Shape = EncoderShape<kDims>;

  float* query;    // [kDims, kRowStride], scaled
  float* keys;     // [kDims, kKeyStride]
  float* weights;  // [kKeys, kRowStride], in place of the keys
  float* values;   // [kKeys, kDims]

  __device__ EncoderTile() {
    query = reinterpret_cast<float*>(dynamicShared());
    keys = query + Shape::kQueryFloats;
    weights = keys;
    constexpr int kShared = Shape::kKeyFloats > Shape::kWeightFloats ? Shape::kKeyFloats
                                                                     : Shape::kWeightFloats;
    values = keys + kShared;
  }
};

/// Rows of a head in global memory: `row(i)` has `dims` floats, 16-byte aligned.
struct HeadRows {
  const float* first;
  int64_t stride;
  int dims;

  /// Four floats from `dim` on; zeros behind the row.
  __device__ float4 quad(int row, int dim, bool exists) const {
    if (!exists || dim >= dims) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return *reinterpret_cast<const float4*>(first + row * stride + dim);
  }
};

/// Writes rows [begin, begin + kRows) transposed, times `scale`; those from `end` on are zeros.
template <int kDims, int kRows, int kStride>
__device__ void loadTransposed(float* tile, const HeadRows& rows, int begin, int end, float scale) {
  for (int i = threadIdx.x; i < kRows * (kDims / 4); i += kEncoderThreads) {
    const int row = i % kRows;
    const int dim = i / kRows * 4;
    const float4 quad = rows.quad(begin + row, dim, begin + row < end);
    tile[(dim + 0) * kStride + row] = quad.x * scale;
    tile[(dim + 1) * kStride + row] = quad.y * scale;
    tile[(dim + 2) * kStride + row] = quad.z * scale;
    tile[(dim + 3) * kStride + row] = quad.w * scale;
  }
}

/// Writes rows [begin, begin + kRows) as they are; those from `end` on are zeros.
template <int kDims, int kRows>
__device__ void loadRows(float* tile, const HeadRows& rows, int begin, int end) {
  for (int i = threadIdx.x; i < kRows * (kDims / 4); i += kEncoderThreads) {
    const int row = i / (kDims / 4);
    const int dim = i % (kDims / 4) * 4;
    const float4 quad = rows.quad(begin + row, dim, begin + row < end);
    *reinterpret_cast<float4*>(tile + row * kDims + dim) = quad;
  }
}

/// What a thread knows of its rows, and the dimensions that are its own.
template <int kDims>
struct EncoderSums {
  using Shape = EncoderShape<kDims>;

  float max[kRowsEach];
  float sum[kRowsEach];
  float total[kRowsEach][Shape::kDimsEach];

  __device__ EncoderSums() {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      max[r] = -infinity();
      sum[r] = 0.0f;
#pragma unroll
      for (int d = 0; d < Shape::kDimsEach; ++d) total[r][d] = 0.0f;
    }
  }

  /// The thread's dimension `index`.
  __device__ static int dimOf(int index) {
    const int column = static_cast<int>(threadIdx.x) % kEncoderSide;
    return index / Shape::kRun * (kEncoderSide * Shape::kRun) + column * Shape::kRun +
           index % Shape::kRun;
  }
};

/// Scores of the thread's rows for its keys.
template <int kDims>
__device__ __forceinline__ void scoreTile(
    const EncoderTile<kDims>& tile, float (&scores)[kRowsEach][EncoderShape<kDims>::kKeysEach]) {
  using Shape = EncoderShape<kDims>;
  const float* const query = tile.query + threadIdx.x / kEncoderSide * kRowsEach;
  const float* const keys = tile.keys + threadIdx.x % kEncoderSide * Shape::kKeysEach;
#pragma unroll 8
  for (int d = 0; d < kDims; ++d) {
    float q[kRowsEach];
    float k[Shape::kKeysEach];
    loadRun<kRowsEach>(query + d * Shape::kRowStride, q);
    loadRun<Shape::kKeysEach>(keys + d * Shape::kKeyStride, k);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int j = 0; j < Shape::kKeysEach; ++j) scores[r][j] = fmaf(q[r], k[j], scores[r][j]);
    }
  }
}

/// Makes weights of a row's scores, relative to the largest so far, and rescales what is summed.
template <int kDims>
__device__ __forceinline__ void weighRow(EncoderSums<kDims>& sums, int r,
                                         float (&scores)[EncoderShape<kDims>::kKeysEach]) {
  using Shape = EncoderShape<kDims>;
  float most = scores[0];
#pragma unroll
  for (int j = 1; j < Shape::kKeysEach; ++j) most = fmaxf(most, scores[j]);
  for (int lane = kEncoderSide / 2; lane > 0; lane /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lane));
  }
  most = fmaxf(most, sums.max[r]);
  // exp(-inf - max) is 0. Where a row saw nothing yet max itself is -inf, and the reference is 0.
  const float reference = most == -infinity() ? 0.0f : most;
  const float shrink = expf(sums.max[r] - reference);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < Shape::kKeysEach; ++j) {
    scores[j] = expf(scores[j] - reference);
    sum += scores[j];
  }
  for (int lane = kEncoderSide / 2; lane > 0; lane /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  }
  sums.max[r] = most;
  sums.sum[r] = fmaf(sums.sum[r], shrink, sum);
#pragma unroll
  for (int d = 0; d < Shape::kDimsEach; ++d) sums.total[r][d] *= shrink;
}

/// Adds the values of the tile, by the weights in shared memory.
template <int kDims>
__device__ __forceinline__ void sumTile(const EncoderTile<kDims>& tile, EncoderSums<kDims>& sums) {
  using Shape = EncoderShape<kDims>;
  const float* const weights = tile.weights + threadIdx.x / kEncoderSide * kRowsEach;
#pragma unroll 8
  for (int key = 0; key < Shape::kKeys; ++key) {
    float w[kRowsEach];
    float v[Shape::kDimsEach];
    loadRun<kRowsEach>(weights + key * Shape::kRowStride, w);
#pragma unroll
    for (int d = 0; d < Shape::kDimsEach; d += Shape::kRun) {
      loadRun<Shape::kRun>(tile.values + key * kDims + sums.dimOf(d), v + d);
    }
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int d = 0; d < Shape::kDimsEach; ++d) {
        sums.total[r][d] = fmaf(w[r], v[d], sums.total[r][d]);
      }
    }
  }
}

}  // namespace perigee
