// Work partition of decode attention: which cached positions each warp reads.
//
// A strand is one kv head of one sequence with up to kRows query rows. Its work is a list of tiles
// of kTileTokens positions. The tiles of all strands form one list, sequences outermost. Blocks,
// and the warps in a block, get equal parts of this list, wherever its strands begin (as in
// stream-K). So every warp reads the same number of bytes whatever the lengths are, and the grid
// does not depend on them. The tiles of one strand that one warp processes are a stretch.
//
//    strands   | seq 0, head 0  | seq 0, head 1  | seq 1, head 0 | seq 1, head 1 |
//    tiles     ..............................................................
//    blocks    |------ block 0 ------|------ block 1 ------|------ block 2 --|
//    warps     | w0 | w1 | w2 | w3   | w0 | w1 | w2 | w3   | ...
//    a strand that spans warps or blocks is merged from their partial results
#pragma once

#include "attention-split.h"
#include "packed-rows.h"

namespace perigee {

constexpr int kTileTokens = 16;
constexpr int kDecodeWarps = 4;
constexpr int kDecodeThreads = kDecodeWarps * kWarp;

/// `sequencesMax` and `gridMax` of src/devices/cuda/ops/attend-decode.ts.
constexpr int kSequencesMax = 1024;
constexpr int kDecodeBlocksMax = 2048;

/// Minimum tiles per warp. With fewer, a short batch is spread over so many blocks that merging
/// their partial results takes longer than reading the cache.
constexpr int kWarpTilesMin = 2;

/// Tiles visible to any row of a sequence: the first `sinkTiles`, then those from `first` on.
struct SeenTiles {
  int sinkTiles;
  int first;
  int count;  // sink tiles included; at least 1, so that zeros are written; 0: no rows

  __device__ int tile(int index) const {
    return index < sinkTiles ? index : first + index - sinkTiles;
  }
};

__device__ __forceinline__ SeenTiles seenTilesOf(const AttentionInput& input, int sequence) {
  const AttentionRows& rows = input.rows;
  const int context = rows.contextLengths[sequence];
  const int tokens = rows.queryStarts[sequence + 1] - rows.queryStarts[sequence];
  if (tokens == 0 || !isDecode(input, tokens)) return {0, 0, 0};
  const int begin = rows.window > 0 ? max(0, context - tokens - rows.window + 1) : 0;
  const int first = begin / kTileTokens;
  const int sinks = min(rows.sinks, context);
  const int sinkTiles = min(first, (sinks + kTileTokens - 1) / kTileTokens);
  const int end = (context + kTileTokens - 1) / kTileTokens;
  return {sinkTiles, first, max(1, sinkTiles + end - first)};
}

/// Tiles [begin, end) of the list of all strands.
struct Tiles {
  int begin;
  int end;
};

/// Positions [begin, end) that a row sees beside the sinks; every sink lies before `end`.
struct DecodeSight {
  int begin;
  int end;

  __device__ bool sees(int position, int sinks) const {
    return position < end && (position >= begin || position < sinks);
  }
};

/// A strand and the range of its tiles in the list. Row r of the strand is row firstRow + r of the
/// sequence's rows of this kv head. Kept in shared memory: its fields are rarely needed, and
/// registers are needed for keys and values.
struct Strand {
  int sequence;
  int kvHead;
  int firstRow;
  int rows;
  int group;  // query heads of the kv head
  int firstToken;
  int tokens;
  int context;
  SeenTiles seen;
  Tiles tiles;
  DecodeSight any;    // positions visible to some row; all others are not read
  DecodeSight every;  // positions visible to all rows

  /// The visible range of row `row` of the sequence; empty after the last row.
  __device__ DecodeSight sightOf(const AttentionInput& input, int row) const {
    if (row >= tokens * group) return {0, 0};
    const int end = context - tokens + tokenOf(row) + 1;
    const int window = input.rows.window;
    return {window > 0 ? max(0, end - window) : 0, end};
  }

  /// Token of row `row`, counted from the sequence's first query token.
  __device__ int tokenOf(int row) const { return row < group ? 0 : row / group; }

  /// Whether every row sees all of a tile, sinks not counted.
  __device__ bool whole(int tile) const {
    const int first = tile * kTileTokens;
    return first >= every.begin && first + kTileTokens <= every.end;
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

/// Strand `number` of a sequence that has `strands` strands of `rowsOfStrand` rows. Its tile range
/// begins at 0; the caller shifts it.
__device__ __forceinline__ Strand strandOf(const AttentionInput& input, int sequence, int number,
                                           int strands, int rowsOfStrand) {
  Strand strand;
  strand.sequence = sequence;
  strand.seen = seenTilesOf(input, sequence);
  strand.firstToken = input.rows.queryStarts[sequence];
  strand.tokens = input.rows.queryStarts[sequence + 1] - strand.firstToken;
  strand.context = input.rows.contextLengths[sequence];
  strand.group = input.group();

  const int parts = strands / input.cache.kvHeads;
  const int rows = strand.tokens * strand.group;
  strand.kvHead = number / parts;
  strand.firstRow = (number - strand.kvHead * parts) * rowsOfStrand;
  strand.rows = min(rowsOfStrand, rows - strand.firstRow);
  strand.tiles = {0, strand.seen.count};
  const DecodeSight first = strand.sightOf(input, 0);
  const DecodeSight last = strand.sightOf(input, rows - 1);
  strand.any = {first.begin, last.end};
  strand.every = {last.begin, first.end};
  return strand;
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
  int tilesBefore[kSequencesMax + 1];  // tiles of one strand of all earlier sequences
  int warpTiles[kDecodeWarps];
  int strands;  // strands per sequence
  int blocks;   // number of blocks that have work
  int total;    // tiles of all strands
  EqualParts parts;

  /// Counts the tiles. All threads call it and may read the result afterwards.
  __device__ void open(const AttentionInput& input, int strandsOfSequence);

  __device__ Tiles ofBlock(int block) const {
    return {parts.begin(block), parts.begin(block + 1)};
  }

  /// The tiles of one warp of a block. The last warp always has some.
  __device__ static Tiles ofWarp(Tiles block, int warp) {
    const int count = block.end - block.begin;
    return {block.begin + count * warp / kDecodeWarps,
            block.begin + count * (warp + 1) / kDecodeWarps};
  }

  __device__ int blockOf(int tile) const { return parts.partOf(tile); }

  __device__ Strand strandAt(const AttentionInput& input, int tile, int rowsOfStrand) const;
};

__device__ inline void DecodeWork::open(const AttentionInput& input, int strandsOfSequence) {
  const int sequences = input.rows.sequences;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int perThread = (sequences + kDecodeThreads - 1) / kDecodeThreads;
  const int first = min(thread * perThread, sequences);
  const int last = min(first + perThread, sequences);

  // 1. Each thread sums its sequences, then a scan adds the sums of all earlier threads.
  int own = 0;
  for (int i = first; i < last; ++i) {
    tilesBefore[i] = seenTilesOf(input, i).count;
    own += tilesBefore[i];
  }
  int upTo = own;
  for (int step = 1; step < kWarp; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, upTo, step);
    if (lane >= step) upTo += before;
  }
  if (lane == kWarp - 1) warpTiles[thread / kWarp] = upTo;
  __syncthreads();
  int before = upTo - own;
  int all = 0;
  for (int warp = 0; warp < kDecodeWarps; ++warp) {
    if (warp < thread / kWarp) before += warpTiles[warp];
    all += warpTiles[warp];
  }

  // 2. Number of tiles before each sequence.
  for (int i = first; i < last; ++i) {
    const int count = tilesBefore[i];
    tilesBefore[i] = before;
    before += count;
  }
  if (thread == 0) {
    constexpr int kBlockTilesMin = kWarpTilesMin * kDecodeWarps;
    tilesBefore[sequences] = all;
    strands = strandsOfSequence;
    total = all * strandsOfSequence;
    const int wanted = (total + kBlockTilesMin - 1) / kBlockTilesMin;
    blocks = max(1, min(wanted, static_cast<int>(gridDim.x)));
    parts = {total / blocks, total % blocks};
  }
  __syncthreads();
}

/// The strand that a tile belongs to; strands have `rowsOfStrand` rows.
__device__ inline Strand DecodeWork::strandAt(const AttentionInput& input, int tile,
                                              int rowsOfStrand) const {
  // Binary search for the last sequence that begins at or before the tile; sequences without tiles
  // are skipped.
  const int ofOneStrand = tile / strands;
  int sequence = 0;
  int behind = input.rows.sequences;
  while (behind - sequence > 1) {
    const int middle = (sequence + behind) / 2;
    if (tilesBefore[middle] <= ofOneStrand) {
      sequence = middle;
    } else {
      behind = middle;
    }
  }
  const int start = tilesBefore[sequence] * strands;
  const int count = tilesBefore[sequence + 1] - tilesBefore[sequence];
  const int number = (tile - start) / count;
  Strand strand = strandOf(input, sequence, number, strands, rowsOfStrand);
  strand.tiles.begin = start + number * count;
  strand.tiles.end = strand.tiles.begin + count;
  return strand;
}

}  // namespace perigee
