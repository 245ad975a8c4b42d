// The main loop of a prefill attention block over the KV tiles that its rows see.
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
  __shared__ PrefillKvTiles<Shape::kPositions> kvTiles;
  if (threadIdx.x == 0) {
    tile = own;
    kvTiles.open(input, own);
  }
  __syncthreads();
  PrefillSource<Shape> source(input, tile, kvTiles);
  source.open();
  loadQueries<Shape, 8>(input, tile, kvTiles.sinkTiles > 0 ? input.sinkQuery : input.query);
  PrefillRows<Shape> rows;
  openRows(rows);

  for (int kvTile = 0; kvTile < kvTiles.count; ++kvTile) {
    source.take(kvTile);
    if (kvTile > 0 && kvTile == kvTiles.sinkTiles) loadQueries<Shape, 2>(input, tile, input.query);

    scoreTile(rows, kvTile);
    const float factor = scaleScores(rows, input, kvTile);
    if (!kvTiles.isFull(kvTile)) {
      maskScores(rows, input, tile, kvTiles.start(kvTile), kvTiles.ofSinks(kvTile));
    }
    weighTile(rows, factor);
    sumTile(rows, kvTile);
    source.leave(kvTile);
  }
  storeRows(rows, p, tile);
}

}  // namespace perigee
