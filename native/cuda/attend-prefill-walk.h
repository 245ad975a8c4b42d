// The main loop of a prefill attention block over the spans that its rows see.
#pragma once

#include "attend-prefill.h"

namespace perigee {

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

/// A block's work, for element type `T` and head dims of up to kDims.
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
    if (span > 0 && span == walk.sinkSpans) loadQueries<Shape, 2>(input, tile, input.query);

    scoreSpan(rows, span);
    const float factor = scaleScores(rows, input, span);
    if (!walk.isFull(span)) maskScores(rows, input, tile, walk.start(span), walk.ofSinks(span));
    weighSpan(rows, factor);
    sumSpan(rows, span);
    source.leave(span);
  }
  storeRows(rows, p, tile);
}

}  // namespace perigee
