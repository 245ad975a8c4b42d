// The positions visible to the rows of a query tile, in the order in which a block processes them.
//
// Positions are processed in KV tiles of kPositions. KV tiles of sinks come first, since they are
// scored by other queries. The KV tiles that follow cover the positions from the rows' least begin
// to the last row's end. A bit mask holds the positions of a KV tile that a row sees.
#pragma once

#include "attend-prefill-tile.h"

namespace perigee {

/// A word with bits [begin, end) set; the bounds may lie outside the word.
__device__ __forceinline__ uint32_t bitsBetween(int begin, int end) {
  const int from = min(max(begin, 0), 32);
  const int to = min(max(end, from), 32);
  const uint32_t below = to == 32 ? 0xffffffffu : (1u << to) - 1u;
  return from == 32 ? 0u : below & (0xffffffffu << from);
}

/// The KV tiles that a block processes. Kept in shared memory, like the query tile, to save
/// registers.
template <int kPositions>
struct PrefillKvTiles {
  int sinkTiles;
  int count;    // number of KV tiles, those of sinks included
  int sinkEnd;  // end of the sinks that the last row sees, and so of those that any row sees
  int begin;    // first position beside the sinks that some row sees
  int end;
  int fullBegin;  // every row sees [fullBegin, fullEnd)
  int fullEnd;
  int treeStart;  // first position of a token tree; larger than all positions without one

  /// Fills all fields. One thread calls it.
  __device__ void open(const AttentionInput& input, const PrefillTile& tile) {
    const RowMask first = input.rows.maskOf(tile.sequence, tile.token(0));
    const RowMask last = input.rows.maskOf(tile.sequence, tile.token(tile.count - 1));
    sinkEnd = last.sinkEnd;
    sinkTiles = tilesOf(sinkEnd);
    begin = max(first.begin, first.sinkEnd);
    end = last.end;
    count = sinkTiles + tilesOf(end - begin);
    fullBegin = max(last.begin, last.sinkEnd);
    treeStart = first.hidden == nullptr ? 0x7fffffff : first.treeStart;
    fullEnd = min(first.end, treeStart);
    if (!input.rows.beginsVary()) return;
    for (int row = 1; row < tile.count; ++row) {
      const int own = input.rows.maskOf(tile.sequence, tile.token(row)).begin;
      begin = min(begin, own);
      fullBegin = max(fullBegin, own);
    }
    count = tilesOf(end - begin);
  }

  __device__ bool ofSinks(int kvTile) const { return kvTile < sinkTiles; }

  /// The first position of a KV tile.
  __device__ int start(int kvTile) const {
    return ofSinks(kvTile) ? kvTile * kPositions : begin + (kvTile - sinkTiles) * kPositions;
  }

  /// Whether some row may see a position of the KV tile; other positions are not read.
  __device__ bool reads(int kvTile, int position) const {
    return kvTile < count && position < (ofSinks(kvTile) ? sinkEnd : end);
  }

  /// Whether every row sees the whole KV tile.
  __device__ bool isFull(int kvTile) const {
    return !ofSinks(kvTile) && start(kvTile) >= fullBegin && start(kvTile) + kPositions <= fullEnd;
  }

  static __device__ int tilesOf(int positions) {
    return (max(positions, 0) + kPositions - 1) / kPositions;
  }
};

/// A row's mask for the 32 positions from `start` on; with `sinks` of sinks only, else of all
/// others.
__device__ __forceinline__ uint32_t maskWord(const RowMask& mask, int start, bool sinks) {
  if (sinks) return bitsBetween(-start, mask.sinkEnd - start);
  const int begin = max(mask.begin, mask.sinkEnd);
  const uint32_t seen = bitsBetween(begin - start, mask.end - start);
  if (mask.hidden == nullptr || start + 32 <= mask.treeStart || start >= mask.treeEnd) return seen;
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) {
    if (((seen >> i) & 1u) != 0 && mask.sees(start + i)) bits |= 1u << i;
  }
  return bits;
}

}  // namespace perigee
