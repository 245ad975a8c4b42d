// Work partition of decode attention: which cached positions each warp reads.
//
// A query tile is up to kRows query rows of one kv head of one sequence. A KV tile is kKvTileTokens
// consecutive positions. A query tile attends to a list of KV tiles. These lists of all query tiles
// form one list, sequences outermost. Blocks, and the warps in a block, get equal parts of this
// list, wherever its query tiles begin (as in stream-K). So every warp reads the same number of
// bytes whatever the lengths are, and the grid does not depend on them. In identifiers `tile` alone
// is a KV tile.
//
//    query tiles   | seq 0, head 0  | seq 0, head 1  | seq 1, head 0 | seq 1, head 1 |
//    KV tiles      ..............................................................
//    blocks        |------ block 0 ------|------ block 1 ------|------ block 2 --|
//    warps         | w0 | w1 | w2 | w3   | w0 | w1 | w2 | w3   | ...
//    a query tile that several warps or blocks process is merged from their partial results
#pragma once

#include "attention-input.h"
#include "packed-rows.h"

namespace perigee {

constexpr int kKvTileTokens = 16;
constexpr int kDecodeWarps = 4;
constexpr int kDecodeThreads = kDecodeWarps * kWarp;

/// `sequencesMax` and `gridMax` of src/devices/cuda/ops/attend-decode.ts.
constexpr int kSequencesMax = 1024;
constexpr int kDecodeBlocksMax = 2048;

/// Words of a row of a tree mask, at most: `treeWordsMax` of attend-decode.ts.
constexpr int kTreeWordsMax = 2;
constexpr int kNoTree = 0x7fffffff;

/// Minimum KV tiles per warp. With fewer, a short batch is spread over so many blocks that merging
/// their partial results takes longer than reading the cache.
constexpr int kWarpTilesMin = 2;

/// KV tiles visible to any row of a sequence: the first `sinkTiles`, then those from `first` on.
struct SeenTiles {
  int sinkTiles;
  int first;
  int count;  // sink tiles included; at least 1, so that zeros are written; 0: no rows

  __device__ int tile(int index) const {
    return index < sinkTiles ? index : first + index - sinkTiles;
  }
};

/// The tree mask of a sequence, which has one query row then (`canAttendDecode`).
__device__ __forceinline__ const uint32_t* treeMaskOf(const AttentionInput& input, int sequence) {
  const AttentionRows& rows = input.rows;
  return rows.treeMask + static_cast<int64_t>(rows.queryStarts[sequence]) * rows.treeWords;
}

/// Rows of its tree that a sequence's row does not see; its position is as much before its place.
__device__ __forceinline__ int hiddenRowsOf(const AttentionInput& input, int sequence) {
  if (input.rows.treeMask == nullptr) return 0;
  const uint32_t* const mask = treeMaskOf(input, sequence);
  int hidden = 0;
  for (int word = 0; word < input.rows.treeWords; ++word) hidden += __popc(mask[word]);
  return hidden;
}

__device__ __forceinline__ SeenTiles seenTilesOf(const AttentionInput& input, int sequence) {
  const AttentionRows& rows = input.rows;
  const int context = rows.contextLengths[sequence];
  const int tokens = rows.queryStarts[sequence + 1] - rows.queryStarts[sequence];
  if (tokens == 0 || !isDecode(input, tokens)) return {0, 0, 0};
  const int hidden = rows.window > 0 ? hiddenRowsOf(input, sequence) : 0;
  const int begin = rows.window > 0 ? max(0, context - tokens - hidden - rows.window + 1) : 0;
  const int first = begin / kKvTileTokens;
  const int sinks = min(rows.sinks, context);
  const int sinkTiles = min(first, (sinks + kKvTileTokens - 1) / kKvTileTokens);
  const int end = (context + kKvTileTokens - 1) / kKvTileTokens;
  return {sinkTiles, first, max(1, sinkTiles + end - first)};
}

/// KV tiles [begin, end) of the list of all query tiles.
struct TileRange {
  int begin;
  int end;
};

/// Positions [begin, end) that a row sees beside the sinks; every sink lies before `end`.
struct VisibleRange {
  int begin;
  int end;

  __device__ bool sees(int position, int sinks) const {
    return position < end && (position >= begin || position < sinks);
  }
};

/// A query tile and the range of its KV tiles in the list. Row r of the query tile is row firstRow
/// + r of the sequence's rows of this kv head. Kept in shared memory: its fields are rarely needed,
/// and registers are needed for keys and values.
struct QueryTile {
  int sequence;
  int kvHead;
  int firstRow;
  int rows;
  int group;  // query heads of the kv head
  int firstToken;
  int tokens;
  int context;
  SeenTiles seen;
  TileRange kvTiles;
  VisibleRange any;    // positions visible to some row; all others are not read
  VisibleRange every;  // positions visible to all rows
  int treeStart;       // bit 0 of `hidden` is this position's; after all positions without a tree
  uint32_t hidden[kTreeWordsMax];  // positions that no row sees although its range has them
  int hiddenRows;

  /// The visible range of row `row` of the sequence; empty after the last row.
  __device__ VisibleRange rangeOf(const AttentionInput& input, int row) const {
    if (row >= tokens * group) return {0, 0};
    const int end = context - tokens + tokenOf(row) + 1;
    const int window = input.rows.window;
    return {window > 0 ? max(0, end - hiddenRows - window) : 0, end};
  }

  /// Whether a position is one of other branches of a token tree.
  __device__ bool hides(int position) const {
    const int bit = position - treeStart;
    if (bit < 0 || bit >= 32 * kTreeWordsMax) return false;
    return ((hidden[bit / 32] >> (bit % 32)) & 1u) != 0;
  }

  /// Looks up the sequence's tree.
  __device__ void openTree(const AttentionInput& input, int of) {
    const AttentionRows& rowsOf = input.rows;
    const bool isTree = rowsOf.treeMask != nullptr;
    const uint32_t* const mask = isTree ? treeMaskOf(input, of) : nullptr;
    const int own = context - tokens;
    treeStart = !isTree ? kNoTree : rowsOf.treeStarts == nullptr ? own : rowsOf.treeStarts[of];
    hiddenRows = hiddenRowsOf(input, of);
    for (int word = 0; word < kTreeWordsMax; ++word) {
      hidden[word] = isTree && word < rowsOf.treeWords ? mask[word] : 0;
    }
  }

  /// Token of row `row`, counted from the sequence's first query token.
  __device__ int tokenOf(int row) const { return row < group ? 0 : row / group; }

  /// Whether every row sees all of a KV tile, sinks not counted.
  __device__ bool whole(int tile) const {
    const int first = tile * kKvTileTokens;
    const int end = first + kKvTileTokens;
    return first >= every.begin && end <= every.end && end <= treeStart;
  }

  /// Index of a row's element 0 in [T, H, D]; negative after the last row.
  __device__ int64_t at(const AttentionInput& input, int row) const {
    if (row >= rows) return -1;
    const int token = tokenOf(firstRow + row);
    const int head = kvHead * group + firstRow + row - token * group;
    const int64_t index = static_cast<int64_t>(firstToken + token) * input.heads + head;
    return index * input.cache.headDim;
  }
};

/// Query tile `number` of a sequence that has `queryTiles` of them, of `queryTileRows` rows each.
/// Its range of KV tiles begins at 0; the caller shifts it.
__device__ __forceinline__ QueryTile queryTileOf(const AttentionInput& input, int sequence,
                                                 int number, int queryTiles, int queryTileRows) {
  QueryTile queryTile;
  queryTile.sequence = sequence;
  queryTile.seen = seenTilesOf(input, sequence);
  queryTile.firstToken = input.rows.queryStarts[sequence];
  queryTile.tokens = input.rows.queryStarts[sequence + 1] - queryTile.firstToken;
  queryTile.context = input.rows.contextLengths[sequence];
  queryTile.group = input.group();

  queryTile.openTree(input, sequence);

  const int tilesOfHead = queryTiles / input.cache.kvHeads;
  const int rows = queryTile.tokens * queryTile.group;
  queryTile.kvHead = number / tilesOfHead;
  queryTile.firstRow = (number - queryTile.kvHead * tilesOfHead) * queryTileRows;
  queryTile.rows = min(queryTileRows, rows - queryTile.firstRow);
  queryTile.kvTiles = {0, queryTile.seen.count};
  const VisibleRange first = queryTile.rangeOf(input, 0);
  const VisibleRange last = queryTile.rangeOf(input, rows - 1);
  queryTile.any = {first.begin, last.end};
  queryTile.every = {last.begin, first.end};
  return queryTile;
}

/// Query tiles of a decoded sequence: those of one kv head after another.
__device__ __forceinline__ int queryTilesOf(const AttentionInput& input, int sequence,
                                            int queryTileRows) {
  const int* const starts = input.rows.queryStarts;
  const int rows = (starts[sequence + 1] - starts[sequence]) * input.group();
  return input.cache.kvHeads * max(1, (rows + queryTileRows - 1) / queryTileRows);
}

/// Division of a count into parts whose sizes differ by at most one, larger parts first.
struct EqualParts {
  int size;
  int larger;  // number of parts that have one more

  __device__ int begin(int part) const { return part * size + min(part, larger); }

  /// The part that contains index `at`.
  __device__ int partOf(int at) const {
    const int behind = at - larger * (size + 1);
    return behind < 0 ? at / (size + 1) : larger + behind / size;
  }
};

/// The partition of all blocks, computed by each block. Kept in shared memory.
struct DecodeWork {
  int tilesBefore[kSequencesMax + 1];  // KV tiles of all query tiles of all earlier sequences
  int warpSums[kDecodeWarps];
  int blocks;  // number of blocks that have work
  int total;   // KV tiles of all query tiles
  EqualParts parts;

  /// Counts the KV tiles. All threads call it and may read the result afterwards.
  __device__ void open(const AttentionInput& input, int queryTileRows);

  __device__ TileRange ofBlock(int block) const {
    return {parts.begin(block), parts.begin(block + 1)};
  }

  /// The KV tiles of one warp of a block. The last warp always has some.
  __device__ static TileRange ofWarp(TileRange block, int warp) {
    const int count = block.end - block.begin;
    return {block.begin + count * warp / kDecodeWarps,
            block.begin + count * (warp + 1) / kDecodeWarps};
  }

  __device__ int blockOf(int tile) const { return parts.partOf(tile); }

  __device__ QueryTile queryTileAt(const AttentionInput& input, int tile, int queryTileRows) const;
};

__device__ inline void DecodeWork::open(const AttentionInput& input, int queryTileRows) {
  const int sequences = input.rows.sequences;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int perThread = (sequences + kDecodeThreads - 1) / kDecodeThreads;
  const int first = min(thread * perThread, sequences);
  const int last = min(first + perThread, sequences);

  // 1. Each thread sums its sequences, then a scan adds the sums of all earlier threads.
  int own = 0;
  for (int i = first; i < last; ++i) {
    tilesBefore[i] = seenTilesOf(input, i).count * queryTilesOf(input, i, queryTileRows);
    own += tilesBefore[i];
  }
  int upTo = own;
  for (int step = 1; step < kWarp; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, upTo, step);
    if (lane >= step) upTo += before;
  }
  if (lane == kWarp - 1) warpSums[thread / kWarp] = upTo;
  __syncthreads();
  int before = upTo - own;
  int all = 0;
  for (int warp = 0; warp < kDecodeWarps; ++warp) {
    if (warp < thread / kWarp) before += warpSums[warp];
    all += warpSums[warp];
  }

  // 2. Number of KV tiles before each sequence.
  for (int i = first; i < last; ++i) {
    const int count = tilesBefore[i];
    tilesBefore[i] = before;
    before += count;
  }
  if (thread == 0) {
    constexpr int kBlockTilesMin = kWarpTilesMin * kDecodeWarps;
    tilesBefore[sequences] = all;
    total = all;
    const int wanted = (total + kBlockTilesMin - 1) / kBlockTilesMin;
    blocks = max(1, min(wanted, static_cast<int>(gridDim.x)));
    parts = {total / blocks, total % blocks};
  }
  __syncthreads();
}

/// The query tile that a KV tile of the list belongs to; query tiles have `queryTileRows` rows.
__device__ inline QueryTile DecodeWork::queryTileAt(const AttentionInput& input, int tile,
                                                    int queryTileRows) const {
  // Binary search for the last sequence that begins at or before the tile; sequences without tiles
  // are skipped.
  int sequence = 0;
  int behind = input.rows.sequences;
  while (behind - sequence > 1) {
    const int middle = (sequence + behind) / 2;
    if (tilesBefore[middle] <= tile) {
      sequence = middle;
    } else {
      behind = middle;
    }
  }
  const int start = tilesBefore[sequence];
  const int queryTiles = queryTilesOf(input, sequence, queryTileRows);
  const int count = (tilesBefore[sequence + 1] - start) / queryTiles;
  const int number = (tile - start) / count;
  QueryTile queryTile = queryTileOf(input, sequence, number, queryTiles, queryTileRows);
  queryTile.kvTiles.begin = start + number * count;
  queryTile.kvTiles.end = queryTile.kvTiles.begin + count;
  return queryTile;
}

}  // namespace perigee
