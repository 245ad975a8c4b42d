// Which positions the rows of a tile see, in the order in which a block walks over them.
//
// The walk is cut into spans of kPositions positions. Spans of sinks come first, since they are
// scored by another query; behind them come those from where the first row begins to see up to
// where the last row ends. A row's sight of a span is a bit per position.
#pragma once

#include "attend-prefill-tile.h"

namespace perigee {

/// Bits [begin, end) of a word; bounds may lie anywhere.
__device__ __forceinline__ uint32_t bitsBetween(int begin, int end) {
  const int from = min(max(begin, 0), 32);
  const int to = min(max(end, from), 32);
  const uint32_t below = to == 32 ? 0xffffffffu : (1u << to) - 1u;
  return from == 32 ? 0u : below & (0xffffffffu << from);
}

/// What a block walks over. It lies in shared memory, as the tile does: registers are scarce.
template <int kPositions>
struct PrefillWalk {
  int sinkSpans;
  int spans;    // sinks' included
  int sinkEnd;  // of the last row: none sees a sink from here on
  int begin;    // the first position beside the sinks that some row sees
  int end;
  int fullBegin;  // every row sees [fullBegin, fullEnd)
  int fullEnd;
  int treeStart;  // where a tree begins; behind all positions without one

  /// Fills all fields. One thread calls it.
  __device__ void open(const AttentionInput& input, const PrefillTile& tile) {
    const RowSight first = input.rows.sightOf(tile.sequence, tile.token(0));
    const RowSight last = input.rows.sightOf(tile.sequence, tile.token(tile.count - 1));
    sinkEnd = last.sinkEnd;
    sinkSpans = spansOf(sinkEnd);
    begin = max(first.begin, first.sinkEnd);
    end = last.end;
    spans = sinkSpans + spansOf(end - begin);
    fullBegin = max(last.begin, last.sinkEnd);
    treeStart = first.treeBits == nullptr ? 0x7fffffff : first.treeStart;
    fullEnd = min(first.end, treeStart);
  }

  __device__ bool ofSinks(int span) const { return span < sinkSpans; }

  /// The first position of a span.
  __device__ int start(int span) const {
    return ofSinks(span) ? span * kPositions : begin + (span - sinkSpans) * kPositions;
  }

  /// Whether some row may see a position of the span: others are not read.
  __device__ bool reads(int span, int position) const {
    return span < spans && position < (ofSinks(span) ? sinkEnd : end);
  }

  /// Whether every row sees the whole span.
  __device__ bool isFull(int span) const {
    return !ofSinks(span) && start(span) >= fullBegin && start(span) + kPositions <= fullEnd;
  }

  static __device__ int spansOf(int positions) {
    return (max(positions, 0) + kPositions - 1) / kPositions;
  }
};

/// A row's sight of the 32 positions from `start` on; `sinks`: only of sinks, else of all others.
__device__ __forceinline__ uint32_t sightWord(const RowSight& sight, int start, bool sinks) {
  if (sinks) return bitsBetween(-start, sight.sinkEnd - start);
  const int begin = max(sight.begin, sight.sinkEnd);
  const uint32_t seen = bitsBetween(begin - start, sight.end - start);
  if (sight.treeBits == nullptr || start + 32 <= sight.treeStart) return seen;
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) {
    if (((seen >> i) & 1u) != 0 && sight.sees(start + i)) bits |= 1u << i;
  }
  return bits;
}

}  // namespace perigee
