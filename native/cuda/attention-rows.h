// The query rows that a block processes, and the positions visible to them.
//
// A row of a sequence is one query head of one token: row = token * group + head in the group of
// query heads that share a kv head. A query tile is kTileRows rows of one sequence. Positions are
// divided into segments of kSegmentTokens at fixed positions.
#pragma once

#include "params.h"

namespace perigee {

constexpr int kTileRows = 8;
constexpr int kSegmentTokens = 256;

/// Attention mask of a row: it sees positions p < sinkEnd, and begin <= p < end, but in a token
/// tree, treeStart <= p < treeEnd, only those whose bit in `hidden` is not set.
struct RowMask {
  int sinkEnd;
  int begin;
  int end;
  int treeStart;
  int treeEnd;
  const uint32_t* hidden;  // null: no tree

  __device__ bool sees(int position) const {
    if (position < sinkEnd) return true;
    if (position < begin || position >= end) return false;
    if (hidden == nullptr || position < treeStart || position >= treeEnd) return true;
    const int bit = position - treeStart;
    return ((hidden[bit / 32] >> (bit % 32)) & 1u) == 0;
  }

  /// Whether any position of a segment may be visible.
  __device__ bool reaches(int segment) const {
    const int first = segment * kSegmentTokens;
    return first < sinkEnd || (first + kSegmentTokens > begin && first < end);
  }

  __device__ int segmentEnd() const {
    return (max(end, sinkEnd) + kSegmentTokens - 1) / kSegmentTokens;
  }
};

/// The batch of an op; fields of `AttentionBatch` in src/devices/attention-inputs.ts.
struct AttentionRows {
  const int* queryStarts;     // [S + 1]
  const int* contextLengths;  // [S]
  const uint32_t* treeMask;   // [T, W], null: causal
  const int* treeStarts;      // [S], null: at each sequence's first row
  int sequences;
  int treeWords;
  int window;  // attention window in positions, sinks not counted; 0: none
  int sinks;   // attention sinks, visible beside the window; 0: none

  __device__ RowMask maskOf(int sequence, int token) const {
    const int context = contextLengths[sequence];
    const int first = queryStarts[sequence];
    const int firstNew = firstNewOf(sequence);
    const int own = firstNew + token;
    if (treeMask == nullptr) {
      return {min(sinks, own + 1), windowBegin(own), own + 1, 0, 0, nullptr};
    }
    const uint32_t* const hidden = treeMask + static_cast<int64_t>(first + token) * treeWords;
    int hiddenRows = 0;
    for (int word = 0; word < treeWords; ++word) hiddenRows += __popc(hidden[word]);
    const int treeStart = treeStarts == nullptr ? firstNew : treeStarts[sequence];
    const int treeEnd = min(context, treeStart + treeWords * 32);
    return {0, windowBegin(own - hiddenRows), own + 1, treeStart, treeEnd, hidden};
  }

  /// Place of a sequence's first query row.
  __device__ int firstNewOf(int sequence) const {
    return contextLengths[sequence] - (queryStarts[sequence + 1] - queryStarts[sequence]);
  }

  __device__ int windowBegin(int position) const {
    return window > 0 ? max(0, position - window + 1) : 0;
  }

  /// Whether rows may begin in another order than theirs: siblings in a tree have one position.
  __device__ bool beginsVary() const { return treeMask != nullptr && window > 0; }

  __device__ int rowsOf(int sequence, int group) const {
    return (queryStarts[sequence + 1] - queryStarts[sequence]) * group;
  }
};

/// Rows [first, first + count) of a sequence; count 0: none.
struct TileRows {
  int sequence;
  int first;
  int count;
};

/// Rows of query tile `tile` of a batch. The query tiles of sequence s are numbered from s +
/// queryStarts[s] * group / kRows on. That leaves enough numbers for all its rows and needs no
/// sum over earlier sequences. All threads of a block call it.
template <int kRows = kTileRows>
__device__ __forceinline__ TileRows tileRowsOf(const AttentionRows& rows, int group, int tile) {
  const auto firstTile = [&](int sequence) {
    return static_cast<int>(static_cast<int64_t>(rows.queryStarts[sequence]) * group / kRows) +
           sequence;
  };
  int before = 0;
  for (int start = 0; start < rows.sequences; start += blockDim.x) {
    const int sequence = start + static_cast<int>(threadIdx.x);
    before += __syncthreads_count(sequence < rows.sequences && firstTile(sequence) <= tile);
  }
  if (before == 0) return {0, 0, 0};
  const int sequence = before - 1;
  const int first = (tile - firstTile(sequence)) * kRows;
  return {sequence, first, min(kRows, max(0, rows.rowsOf(sequence, group) - first))};
}

/// The sequence of a token of the batch; rows.sequences for a token after the last. All threads of
/// a block call it.
__device__ __forceinline__ int sequenceOf(const AttentionRows& rows, int token) {
  int before = 0;
  for (int start = 0; start < rows.sequences; start += blockDim.x) {
    const int sequence = start + static_cast<int>(threadIdx.x);
    before += __syncthreads_count(sequence < rows.sequences &&
                                  rows.queryStarts[sequence + 1] <= token);
  }
  return before;
}

}  // namespace perigee
