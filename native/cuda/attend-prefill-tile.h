// The query tile that a block of prefill attention processes.
#pragma once

#include "attention-input.h"

namespace perigee {

/// The query rows of one block. row = token * group + head in the group, as everywhere, so that the
/// query heads of a kv head share its keys and values.
struct PrefillTile {
  int sequence;
  int kvHead;
  int first;
  int count;  // 0: the block has no work
  int group;
  int firstToken;  // first token of the sequence in the batch

  /// Token, in the sequence, of a row of the tile. Rows after the last count as the last.
  __device__ int token(int row) const { return (first + min(row, count - 1)) / group; }

  /// Index of a row's first element in [tokens, heads, dims].
  __device__ int64_t elementOf(int row, int heads, int dims) const {
    const int index = first + min(row, count - 1);
    const int64_t head = kvHead * group + index % group;
    return ((firstToken + index / group) * static_cast<int64_t>(heads) + head) * dims;
  }
};

/// The query tile of a block. The grid has (tiles * kv heads) blocks with floor(T * group / kRows)
/// + S tiles, numbered as in tileRowsOf, in reverse order: late rows attend to the most positions,
/// and starting with the longest tiles balances the end of the launch. All threads of a block call
/// it.
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
