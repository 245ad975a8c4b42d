// The walk of a block of prefill attention over the spans that its rows see.
#pragma once

#include "attend-prefill.h"

namespace perigee {

/// Values that no row of the tile sees become zeros: what was never written may be NaN, and NaN
/// times a weight of 0 is not 0. Only a tree has such holes inside a span; what lies outside of all
/// sights is not copied. All threads call it.
template <typename Shape>
__device__ void closeHoles(const AttentionInput& input, const PrefillTile& tile, int span,
                           int start) {
  constexpr int kWords = Shape::kPositions / 32;
  __shared__ uint32_t seen[kWords];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWords) seen[thread] = 0;
  __syncthreads();
  if (thread < tile.count) {
    const RowSight sight = input.rows.sightOf(tile.sequence, tile.token(thread));
    for (int i = 0; i < kWords; ++i) atomicOr(&seen[i], sightWord(sight, start + 32 * i, false));
  }
  __syncthreads();
  for (int i = thread; i < Shape::kPositions * Shape::kChunks; i += Shape::kThreads) {
    const int position = i / Shape::kChunks;
    if (((seen[position / 32] >> (position % 32)) & 1u) != 0) continue;
    const int at = Shape::valuesAt(span) + Shape::chunkAt(position, i % Shape::kChunks);
    *reinterpret_cast<uint4*>(dynamicShared() + at) = make_uint4(0, 0, 0, 0);
    if (kScaled<typename Shape::Element>) Shape::scales(span)[Shape::kPositions + position] = 0.0f;
  }
  __syncthreads();
}

template <typename Shape>
__device__ __forceinline__ void openRows(PrefillRows<Shape>& rows) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.most[m][half] = -infinity();
      rows.weight[m][half] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < Shape::kDims / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) rows.sums[m][n][j] = 0.0f;
    }
  }
}

/// What a block does, for elements `T` and heads of up to kDims.
template <typename T, int kDims>
__device__ __forceinline__ void attendPrefill(const PrefillParams& p) {
  using Shape = PrefillShape<T, kDims>;
  const AttentionInput& input = p.input;
  joinStream();
  const PrefillTile own = prefillTileOf<Shape::kRows>(input);
  if (own.count == 0) return;
  __shared__ PrefillTile tile;
  __shared__ PrefillWalk<Shape::kPositions> walk;
  if (threadIdx.x == 0) {
    tile = own;
    walk.open(input, own);
  }
  __syncthreads();
  PrefillSource<Shape> source(input, tile, walk);
  source.open();
  loadQueries<Shape, 8>(input, tile, walk.sinkSpans > 0 ? input.sinkQuery : input.query);
  PrefillRows<Shape> rows;
  openRows(rows);

  for (int span = 0; span < walk.spans; ++span) {
    source.take(span);
    const bool full = walk.isFull(span);
    if (walk.treeStart < walk.start(span) + Shape::kPositions) {
      closeHoles<Shape>(input, tile, span, walk.start(span));
    }
    if (span > 0 && span == walk.sinkSpans) loadQueries<Shape, 2>(input, tile, input.query);

    scoreSpan(rows, span);
    const float factor = scaleScores(rows, input, span);
    if (!full) hideScores(rows, input, tile, walk.start(span), walk.ofSinks(span));
    weighSpan(rows, factor);
    sumSpan(rows, span);
    source.leave(span);
  }
  storeRows(rows, p, tile);
}

}  // namespace perigee
