// Attention of a query tile's rows to the KV tiles that one warp processes.
//
//   scores are f32, from queries rounded to the operand type (bf16 or f16)
//   weights 2^(score - max) are f32, rounded to the operand type only for the product with values
#pragma once

#include "attend-decode-tile.h"
#include "attend-decode-work.h"

namespace perigee {

constexpr float kLog2E = 1.4426950408889634f;
constexpr uint32_t kWholeWarp = 0xffffffffu;

/// The KV tiles that a warp processes: every `stride`th visible KV tile of a query tile.
struct WarpTiles {
  int first;
  int stride;
  int count;

  __device__ int index(int tile) const { return first + tile * stride; }
};

/// A compile-time constant, passed as an argument.
template <bool kValue>
struct Constant {
  static constexpr bool value = kValue;
};

/// Scales of the positions whose scores this lane holds: g and g + 8 (attend-decode-tile.h).
struct TileScales {
  float key[2];
  float value[2];

  template <typename Seen>
  __device__ void load(const TileSite& site, const KvLayer& cache, const Seen& seen) {
    const int offset = site.number * kKvTileTokens % cache.blockTokens;
    const uint8_t* const head = site.keys - static_cast<int64_t>(offset) * site.rowBytes;
    const auto* const scales = reinterpret_cast<const Bf16*>(head + 2 * site.toValues) + offset;
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int position = lane / 4 + 8 * i;
      const bool own = cache.tokenScales && seen(position);
      key[i] = own ? widen(scales[position]) : cache.keyScale;
      value[i] = own ? widen(scales[cache.blockTokens + position]) : cache.valueScale;
    }
  }
};

/// Online softmax state of a query tile's rows, distributed over a warp. A lane holds parts of rows
/// 2t and 2t + 1 of each set of 8; `addValues` defines which elements.
template <int kDims, int kRowTiles>
struct DecodeSums {
  float max[kRowTiles][2];  // as an exponent of 2
  float sum[kRowTiles][2];
  float values[kRowTiles][kDims / 16][4];

  __device__ void clear() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      max[r][0] = max[r][1] = -infinity();
      sum[r][0] = sum[r][1] = 0.0f;
#pragma unroll
      for (int i = 0; i < kDims / 16; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) values[r][i][c] = 0.0f;
      }
    }
  }

  /// Sums over the lanes, which hold different positions. Done once, after the warp's last tile.
  __device__ void gather() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      for (int step = 4; step < kWarp; step *= 2) {
        sum[r][0] += __shfl_xor_sync(kWholeWarp, sum[r][0], step);
        sum[r][1] += __shfl_xor_sync(kWholeWarp, sum[r][1], step);
      }
    }
  }

  /// Rescales both rows of a set.
  __device__ void shrink(int r, const float (&by)[2]) {
    if (!__any_sync(kWholeWarp, by[0] != 1.0f || by[1] != 1.0f)) return;
    sum[r][0] *= by[0];
    sum[r][1] *= by[1];
#pragma unroll
    for (int i = 0; i < kDims / 16; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) values[r][i][c] *= by[c % 2];
    }
  }
};

/// Addresses of a warp's KV tiles; each lane holds that of one of kWarp tiles.
struct TileAddresses {
  const AttentionInput& input;
  const QueryTile& queryTile;
  const WarpTiles& warpTiles;
  int64_t keys;  // address of this lane's tile; 0: not in the cache
  int first;     // number of the warp's tile that lane 0 holds

  __device__ TileAddresses(const AttentionInput& of, const QueryTile& at, const WarpTiles& what)
      : input(of), queryTile(at), warpTiles(what) {
    look(0);
  }

  /// Looks up the tiles from `from` on. All lanes call it.
  __device__ void look(int from) {
    const KvLayer& cache = input.cache;
    first = from;
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const int mine = min(first + lane, warpTiles.count - 1);
    const int position = queryTile.seen.tile(warpTiles.index(mine)) * kKvTileTokens;
    keys = 0;
    // A row that sees no position still has a tile, but that tile has no block.
    if (position >= queryTile.context) return;
    const int* const table = input.blockTables + queryTile.sequence * input.blocksPerTable;
    const int block = table[position / cache.blockTokens];
    keys =
        reinterpret_cast<int64_t>(cache.key(block, position % cache.blockTokens, queryTile.kvHead));
  }

  /// The site of the warp's tile number `tile`. All lanes call it, with rising numbers.
  __device__ TileSite at(int tile) {
    if (tile >= first + kWarp) look(tile);
    const KvLayer& cache = input.cache;
    const int64_t address = __shfl_sync(kWholeWarp, keys, tile - first);
    return {reinterpret_cast<const uint8_t*>(address), cache.toValue(), cache.rowBytes,
            cache.headDim, queryTile.seen.tile(warpTiles.index(tile))};
  }
};

/// Attention of a query tile (attend-decode-work.h) to a warp's KV tiles, one after another:
/// accumulates into the sums of its rows.
template <typename T, int kDims, int kRowTiles>
struct WarpAttention {
  using Sums = DecodeSums<kDims, kRowTiles>;

  /// Whether registers suffice to hold the next tile's loads beside the current tile.
  static constexpr bool kAhead = kDims * sizeof(T) <= 256;

  const AttentionInput& input;
  const QueryTile& queryTile;
  VisibleRange ranges[kRowTiles][2];  // of rows 2t and 2t + 1 of each set of 8
  DecodeQuery<typename OperandOf<T>::Type, kDims, kRowTiles> query;
  KvTile<T, kDims> tile;
  TileScales scales;

  __device__ WarpAttention(const AttentionInput& of, const QueryTile& at)
      : input(of), queryTile(at) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i) {
      const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
      ranges[i / 2][i % 2] = queryTile.rangeOf(input, queryTile.firstRow + row);
    }
  }

  __device__ void loadQuery(const float* queries) {
    const auto rowOf = [&](int row) -> const float* {
      const int64_t at = queryTile.at(input, row);
      return at < 0 ? nullptr : queries + at;
    };
    query.load(rowOf, input.cache.headDim);
  }

  /// Calls `load(whole, seen)` with the arguments that `KvTile` needs.
  template <typename Load>
  __device__ void choose(const TileSite& site, const Load& load) const {
    const int first = site.number * kKvTileTokens;
    const int sinks = input.rows.sinks;
    const auto seen = [&](int position) {
      return queryTile.any.sees(first + position, sinks) && !queryTile.hides(first + position);
    };
    if (queryTile.whole(site.number) && site.headDim == kDims) {
      load(Constant<true>{}, seen);
    } else {
      load(Constant<false>{}, seen);
    }
  }

  __device__ void loadKeys(const TileSite& site) {
    choose(site, [&](auto whole, const auto& seen) {
      tile.template loadKeys<decltype(whole)::value>(site, seen);
      if constexpr (kScaled<T>) scales.load(site, input.cache, seen);
    });
  }

  __device__ void loadValues(const TileSite& site) {
    choose(site, [&](auto whole, const auto& seen) {
      tile.template loadValues<decltype(whole)::value>(site, seen);
    });
  }

  /// Scores of the tile's positions. Sinks are scored by the sink queries.
  __device__ void score(float (&scores)[kRowTiles][4], const TileSite& site) {
    scoreTile<T, kDims>(scores, tile, query);
    const int first = site.number * kKvTileTokens;
    if (input.sinkQuery == nullptr || first >= input.rows.sinks) return;
    float sinkScores[kRowTiles][4];
    loadQuery(input.sinkQuery);
    scoreTile<T, kDims>(sinkScores, tile, query);
    loadQuery(input.query);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + tile.keyPosition(i / 2) >= input.rows.sinks) continue;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) scores[r][i] = sinkScores[r][i];
    }
  }

  /// The scaled score as an exponent of 2; -infinity if row `r`, `i % 2` does not see the position.
  __device__ float visible(float score, const TileScales& by, int r, int i, int first) const {
    const bool inTree = first + kKvTileTokens > queryTile.treeStart;
    if constexpr (kScaled<T>) score *= by.key[i / 2];
    score *= input.scale;
    if (input.softcap > 0.0f) score = input.softcap * tanhf(score / input.softcap);
    const int position = first + tile.keyPosition(i / 2);
    const bool seen = ranges[r][i % 2].sees(position, input.rows.sinks);
    return seen && !(inTree && queryTile.hides(position)) ? score * kLog2E : -infinity();
  }

  /// Weights of the tile's positions, as an operand of the product with the values. Rescales `sums`
  /// to the new maximum.
  __device__ void weigh(unsigned (&weights)[kRowTiles][2], const float (&scores)[kRowTiles][4],
                        Sums& sums, const TileScales& by, int first) const {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      float each[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) each[i] = visible(scores[r][i], by, r, i, first);
      float shrink[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float most = fmaxf(sums.max[r][c], fmaxf(each[c], each[2 + c]));
        for (int step = 4; step < kWarp; step *= 2) {
          most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, step));
        }
        const float base = most == -infinity() ? 0.0f : most;
        shrink[c] = powerOfTwo(sums.max[r][c] - base);
        sums.max[r][c] = most;
        each[c] = powerOfTwo(each[c] - base);
        each[2 + c] = powerOfTwo(each[2 + c] - base);
      }
      sums.shrink(r, shrink);
      sums.sum[r][0] += each[0] + each[2];
      sums.sum[r][1] += each[1] + each[3];
      if constexpr (kScaled<T>) {
        // The scale of a masked value may be NaN.
#pragma unroll
        for (int i = 0; i < 4; ++i) each[i] = each[i] == 0.0f ? 0.0f : each[i] * by.value[i / 2];
      }
      using Operand = typename OperandOf<T>::Type;
      weights[r][0] = transposeMatrix(packPair(each[0], each[1], Operand{}));
      weights[r][1] = transposeMatrix(packPair(each[2], each[3], Operand{}));
    }
  }

  /// Processes at least one tile. The next tile's loads are in flight during the products of the
  /// current one: keys as soon as their registers are free, then values.
  __device__ void run(Sums& sums, const WarpTiles& warpTiles) {
    TileAddresses addresses(input, queryTile, warpTiles);
    TileSite site = addresses.at(0);
    // With enough registers the queries are loaded after the first tile, whose latency is longer.
    if (!kAhead) loadQuery(input.query);
    loadKeys(site);
    if (kAhead) loadValues(site);
    if (kAhead) loadQuery(input.query);
    for (int index = 0; index < warpTiles.count; ++index) {
      float scores[kRowTiles][4];
      unsigned weights[kRowTiles][2];
      const bool more = index + 1 < warpTiles.count;
      const TileScales own = scales;
      const TileSite next = more ? addresses.at(index + 1) : site;
      score(scores, site);
      if (kAhead && more) loadKeys(next);
      if (!kAhead) loadValues(site);
      weigh(weights, scores, sums, own, site.number * kKvTileTokens);
      addValues<T, kDims>(sums.values, tile, weights);
      if (kAhead && more) loadValues(next);
      if (!kAhead && more) loadKeys(next);
      site = next;
    }
    sums.gather();
  }
};

}  // namespace perigee
