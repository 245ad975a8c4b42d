// Attention of a query tile to one segment of positions, on f32 units, bitwise reproducible.
//
//    256 threads:  1. a thread per position   scores [256, 8 rows]
//                  2. a warp per row          maximum, weights, sum
//                  3. a thread per (dim, slice)  sums over values; slices interleave positions
//
// Order  In a segment a score is one thread's sum over D. Then follow the maximum, the weights,
//        their sum, and the sum over values in a fixed number of interleaved slices. Segments are
//        merged in rising order. So a row's result has the same bits whatever tile, batch or chunk
//        it is computed in: masked positions add nothing.
#pragma once

#include "attention-rows.h"
#include "kv-elements.h"
#include "packed-rows.h"

namespace perigee {

constexpr int kHeadDimMax = 256;
constexpr int kAttentionThreads = 256;
static_assert(kAttentionThreads == kSegmentTokens, "a thread scores one position");
static_assert(kAttentionThreads / kWarp == kTileRows, "a warp makes the weights of one row");

/// State of a query tile, in shared memory.
struct AttentionTile {
  float query[kTileRows][kHeadDimMax];  // scaled; zeros after D
  float sinkQuery[kTileRows][kHeadDimMax];
  float weights[kSegmentTokens][kTileRows];
  float slices[kAttentionThreads][kTileRows];  // [slice, D] partial sums over values
  const uint8_t* values[kSegmentTokens];       // null: no row sees the position
  float valueScales[kSegmentTokens];
  RowMask masks[kTileRows];
  float max[kTileRows];  // maximum in the segment
  float sum[kTileRows];
  float total[kTileRows][kHeadDimMax];  // of all segments so far
  float totalMax[kTileRows];
  float totalSum[kTileRows];
};

/// One load of a thread from a row of `T`s: kCount elements, either 16 bytes or one element.
template <typename T, int kCount>
struct Chunk {
  float values[kCount];

  __device__ explicit Chunk(const T* from) {
    if constexpr (kCount == 1) {
      values[0] = widen(*from);
    } else {
      static_assert(kCount * sizeof(T) == sizeof(uint4), "whole loads");
      const uint4 bytes = *reinterpret_cast<const uint4*>(from);
      const T* const elements = reinterpret_cast<const T*>(&bytes);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] = widen(elements[i]);
    }
  }
};

struct SegmentShape {
  int headDim;
  int rows;       // of the tile
  int sinks;      // positions below this are scored by the sink queries
  float softcap;  // 0: none
};

/// Scores of this thread's position for all rows. `key` is read kChunk elements at a time.
template <typename T, int kChunk>
__device__ __forceinline__ void scorePosition(const T* key, const float (*query)[kHeadDimMax],
                                              const SegmentShape& shape, float* scores) {
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) scores[r] = 0.0f;
  for (int d = 0; d < shape.headDim; d += kChunk) {
    const Chunk<T, kChunk> chunk(key + d);
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      if (r >= shape.rows) continue;
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        scores[r] = fmaf(query[r][d + i], chunk.values[i], scores[r]);
      }
    }
  }
}

/// 1. One thread per position: its score for each row, and the address of its value. `source`
/// locates key, value and scales of a position; it is called only for positions that some row sees.
template <typename Source>
__device__ void scoreSegment(AttentionTile& tile, const Source& source, int segment,
                             const SegmentShape& shape) {
  using T = typename Source::Element;
  const int place = static_cast<int>(threadIdx.x);
  const int position = segment * kSegmentTokens + place;
  uint32_t seenBy = 0;
  for (int r = 0; r < shape.rows; ++r) {
    if (tile.masks[r].sees(position)) seenBy |= 1u << r;
  }

  float scores[kTileRows];
  tile.values[place] = nullptr;
  if (seenBy != 0) {
    const auto at = source.at(position);
    const auto* const query = position < shape.sinks ? tile.sinkQuery : tile.query;
    scorePosition<T, Source::kChunk>(at.key, query, shape, scores);
    tile.values[place] = reinterpret_cast<const uint8_t*>(at.value);
    if constexpr (kScaled<T>) {
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) scores[r] *= at.keyScale;
      tile.valueScales[place] = at.valueScale;
    }
  }
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    const bool seen = ((seenBy >> r) & 1u) != 0;
    float score = scores[r];
    if (seen && shape.softcap > 0.0f) score = shape.softcap * tanhf(score / shape.softcap);
    tile.weights[place][r] = seen ? score : -infinity();
  }
}

/// 2. One warp per row: scores become weights relative to their maximum.
template <typename T>
__device__ void weighSegment(AttentionTile& tile) {
  const int row = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float most = -infinity();
  for (int place = lane; place < kSegmentTokens; place += kWarp) {
    most = fmaxf(most, tile.weights[place][row]);
  }
  most = warpMax(most);

  // exp(-inf - max) is 0. Where a row sees nothing max itself is -inf, and the reference is 0
  // instead.
  const float reference = most == -infinity() ? 0.0f : most;
  float sum = 0.0f;
  for (int place = lane; place < kSegmentTokens; place += kWarp) {
    float weight = expf(tile.weights[place][row] - reference);
    sum += weight;
    if constexpr (kScaled<T>) {
      if (weight != 0.0f) weight *= tile.valueScales[place];
    }
    tile.weights[place][row] = weight;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  if (lane == 0) {
    tile.max[row] = most;
    tile.sum[row] = sum;
  }
}

/// 3. One thread per dim and slice: the weighted sum over the slice's positions. Masked positions
/// are skipped: they may never have been written and hold NaN, and NaN times a weight of 0 is NaN.
template <typename T>
__device__ void sumSegment(AttentionTile& tile, const SegmentShape& shape) {
  const int slices = kAttentionThreads / shape.headDim;
  const int slice = static_cast<int>(threadIdx.x) / shape.headDim;
  const int d = static_cast<int>(threadIdx.x) % shape.headDim;
  if (slice >= slices) return;
  float sums[kTileRows] = {};
  for (int place = slice; place < kSegmentTokens; place += slices) {
    const uint8_t* const row = tile.values[place];
    if (row == nullptr) continue;
    const float value = widen(reinterpret_cast<const T*>(row)[d]);
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      const float weight = tile.weights[place][r];
      sums[r] = weight == 0.0f ? sums[r] : fmaf(weight, value, sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) tile.slices[threadIdx.x][r] = sums[r];
}

/// The segment's sum over values for one row and dim.
__device__ __forceinline__ float segmentValue(const AttentionTile& tile, int headDim, int row,
                                              int d) {
  float sum = 0.0f;
  for (int slice = 0; slice < kAttentionThreads / headDim; ++slice) {
    sum += tile.slices[slice * headDim + d][row];
  }
  return sum;
}

/// Computes max, sum and slices of a segment. All threads call it, after a barrier that makes
/// `masks` and `query` visible; it ends with a barrier, so every thread may read the results.
template <typename Source>
__device__ void attendSegment(AttentionTile& tile, const Source& source, int segment,
                              const SegmentShape& shape) {
  using T = typename Source::Element;
  scoreSegment(tile, source, segment, shape);
  __syncthreads();
  weighSegment<T>(tile);
  __syncthreads();
  sumSegment<T>(tile, shape);
  __syncthreads();
}

/// Rescaling factors when a segment's result is merged into a state. The kernels that merge while
/// they go and those that merge later share this formula, so their results have the same bits.
struct Merge {
  float max;
  float shrinkOld;
  float shrinkNew;

  __device__ Merge(float oldMax, float newMax) {
    max = fmaxf(oldMax, newMax);
    shrinkOld = expf(oldMax - max);
    shrinkNew = expf(newMax - max);
  }
  __device__ float of(float old, float added) const {
    return __fmaf_rn(added, shrinkNew, __fmul_rn(old, shrinkOld));
  }
};

/// Merges the segment into the total. All threads call it.
__device__ __forceinline__ void mergeSegment(AttentionTile& tile, const SegmentShape& shape) {
  for (int i = threadIdx.x; i < shape.rows * shape.headDim; i += blockDim.x) {
    const int row = i / shape.headDim;
    const int d = i % shape.headDim;
    if (tile.max[row] == -infinity()) continue;
    const Merge merge(tile.totalMax[row], tile.max[row]);
    tile.total[row][d] = merge.of(tile.total[row][d], segmentValue(tile, shape.headDim, row, d));
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row < shape.rows && tile.max[row] != -infinity()) {
    const Merge merge(tile.totalMax[row], tile.max[row]);
    tile.totalSum[row] = merge.of(tile.totalSum[row], tile.sum[row]);
    tile.totalMax[row] = merge.max;
  }
  __syncthreads();
}

/// Zeros for a row that sees nothing; NaN stays NaN.
__device__ __forceinline__ float finished(float value, float sum) {
  return sum == 0.0f ? 0.0f : value / sum;
}

/// Stores one element of an f32 or bf16 activation. i8 needs whole groups and is converted from f32
/// rows.
__device__ __forceinline__ void storeElement(const PackedRows& out, int64_t row, int column,
                                             float value) {
  uint8_t* const bytes = out.row(row);
  if (out.format != Format::bf16) {
    reinterpret_cast<float*>(bytes)[column] = value;
    return;
  }
  Bf16* const halves = reinterpret_cast<Bf16*>(bytes);
  halves[column] = narrowBf16(value);
  if (column + 1 < out.columns) return;
  // Also writes the padding after the row, which a linear op reads.
  const int padded = static_cast<int>(packedRowBytes(Format::bf16, out.columns)) / 2;
  for (int i = out.columns; i < padded; ++i) halves[i] = Bf16{0};
}

}  // namespace perigee
