// Which query rows a block of prefill attention owns.
#pragma once

#include "attention-split.h"

namespace perigee {

/// The rows of one block: row = token * group + head inside the group, as everywhere, so that the
/// heads that share keys and values read them together.
struct PrefillTile {
  int sequence;
  int kvHead;
  int first;
  int count;  // 0: nothing to do
  int group;
  int firstToken;  // of the sequence in the batch

  /// Of a row of the tile, within the sequence; rows behind the last are taken for the last.
  __device__ int token(int row) const { return (first + min(row, count - 1)) / group; }

  /// Where a row's head begins among rows of `heads` heads of `dims` elements.
  __device__ int64_t elementOf(int row, int heads, int dims) const {
    const int index = first + min(row, count - 1);
    const int64_t head = kvHead * group + index % group;
    return ((firstToken + index / group) * static_cast<int64_t>(heads) + head) * dims;
  }
};

/// The tile of a block in a grid of (tiles * kv heads) blocks, where tiles are
/// floor(T * group / kRows) + S, numbered as tileRowsOf does, from the last down: late rows see
/// most, and a chip that begins with the longest work ends evenly. All threads of a block call it.
template <int kRows>
__device__ PrefillTile prefillTileOf(const AttentionInput& input) {
  const AttentionRows& rows = input.rows;
  const int group = input.group();
  const int block = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int tile = block / input.cache.kvHeads;
  const auto firstTile = [&](int sequence) {
    return static_cast<int>(static_cast<int64_t>(rows.queryStarts[sequence]) * group / kRows) +
           sequence;
  };
  int before = 0;
  for (int start = 0; start < rows.sequences; start += blockDim.x) {
    const int sequence = start + static_cast<int>(threadIdx.x);
    before += __syncthreads_count(sequence < rows.sequences && firstTile(sequence) <= tile);
  }
  if (before == 0) return {};
  const int sequence = before - 1;
  const int tokens = rows.queryStarts[sequence + 1] - rows.queryStarts[sequence];
  const int first = (tile - firstTile(sequence)) * kRows;
  const int left = isDecode(input, tokens) ? 0 : tokens * group - first;
  return {sequence, block % input.cache.kvHeads,      first, min(kRows, max(0, left)),
          group,    rows.queryStarts[sequence]};
}

}  // namespace perigee
