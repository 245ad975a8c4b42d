// The positions visible to the rows of a tile, in the order in which a block processes them.
//
// Positions are processed in spans of kPositions. Spans of sinks come first, since they are scored
// by other queries. The spans that follow cover the positions from the first row's begin to the
// last row's end. The positions of a span that a row sees are a bit mask.
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

/// The spans that a block processes. Kept in shared memory, like the tile, to save registers.
template <int kPositions>
struct PrefillWalk {
  int sinkSpans;
  int spans;    // number of spans, those of sinks included
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

  /// Whether some row may see a position of the span; other positions are not read.
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

/// A row's mask for the 32 positions from `start` on; with `sinks` of sinks only, else of all
/// others.
__device__ __forceinline__ uint32_t maskWord(const RowMask& mask, int start, bool sinks) {
  if (sinks) return bitsBetween(-start, mask.sinkEnd - start);
  const int begin = max(mask.begin, mask.sinkEnd);
  const uint32_t seen = bitsBetween(begin - start, mask.end - start);
  if (mask.treeBits == nullptr || start + 32 <= mask.treeStart) return seen;
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) {
    if (((seen >> i) & 1u) != 0 && mask.sees(start + i)) bits |= 1u << i;
  }
  return bits;
}

}  // namespace perigee
