// Which cached positions a warp of the decode kernel reads.
//
// A strand is what one kv head of one sequence has to show to up to kRows query rows: a row of
// tiles of kTileTokens positions. All strands of a batch lie one behind the other, sequences
// outermost, and the blocks, and in a block its warps, have equal parts of their tiles, wherever
// these fall. So every warp reads as many bytes as any other, whatever the lengths, and the grid
// does not depend on them. A stretch is what a warp has of a strand.
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

/// Tiles that a warp should have at least: with fewer, a short batch is spread over so many blocks
/// that putting their shares together takes longer than the reading.
constexpr int kWarpTilesMin = 2;

/// The tiles that any row of a sequence sees: `sinkTiles` of the first, then from `first` on.
struct SeenTiles {
  int sinkTiles;
  int first;
  int count;  // both kinds; at least 1, so that a row without any sight has a writer; 0: no rows

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

/// Tiles [begin, end) of all strands in a row.
struct Tiles {
  int begin;
  int end;
};

/// The positions [begin, end) that a row sees beside the sinks, all of them before `end`.
struct DecodeSight {
  int begin;
  int end;

  __device__ bool sees(int position, int sinks) const {
    return position < end && (position >= begin || position < sinks);
  }
};

/// A strand, and where its tiles lie in the row of all. Row r of it is row firstRow + r of the
/// sequence's rows of this kv head. In shared memory: its fields are needed now and then, and
/// registers are for keys and values.
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
  DecodeSight any;    // what some row sees: all else is not read
  DecodeSight every;  // what all rows see

  /// Of row `row` of the sequence; of none behind the last.
  __device__ DecodeSight sightOf(const AttentionInput& input, int row) const {
    if (row >= tokens * group) return {0, 0};
    const int end = context - tokens + tokenOf(row) + 1;
    const int window = input.rows.window;
    return {window > 0 ? max(0, end - window) : 0, end};
  }

  /// The token of row `row` of the sequence, counted from its first.
  __device__ int tokenOf(int row) const { return row < group ? 0 : row / group; }

  /// Whether every row sees all of a tile beside the sinks.
  __device__ bool whole(int tile) const {
    const int first = tile * kTileTokens;
    return first >= every.begin && first + kTileTokens <= every.end;
  }

  /// Element 0 of a row in [T, H, D]; negative behind the last row.
  __device__ int64_t at(const AttentionInput& input, int row) const {
    if (row >= rows) return -1;
    const int token = tokenOf(firstRow + row);
    const int head = kvHead * group + firstRow + row - token * group;
    const int64_t index = static_cast<int64_t>(firstToken + token) * input.heads + head;
    return index * input.cache.headDim;
  }
};

/// Strand `number` of a sequence, which has `strands` of `rowsOfStrand` rows each; its tiles begin
/// at 0.
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

/// `count` of something in `parts` parts that differ by one at most, the larger ones first.
struct EqualParts {
  int size;
  int larger;  // parts that have one more

  __device__ int begin(int part) const { return part * size + min(part, larger); }

  /// The part that has number `at`.
  __device__ int partOf(int at) const {
    const int behind = at - larger * (size + 1);
    return behind < 0 ? at / (size + 1) : larger + behind / size;
  }
};

/// The work of all blocks, known to each. In shared memory.
struct DecodeWork {
  int tilesBefore[kSequencesMax + 1];  // of one strand of each sequence before
  int warpTiles[kDecodeWarps];
  int strands;  // of one sequence
  int blocks;   // that have work
  int total;    // tiles of all strands
  EqualParts parts;

  /// Counts the tiles. All threads call it, and see the result.
  __device__ void open(const AttentionInput& input, int strandsOfSequence);

  __device__ Tiles ofBlock(int block) const {
    return {parts.begin(block), parts.begin(block + 1)};
  }

  /// What a warp has of its block's tiles; the last warp always has some.
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

  // 1. Sums of each thread's sequences, and of all threads before it.
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

  // 2. What is before each sequence.
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

/// The strand that a tile belongs to, of strands of `rowsOfStrand` rows.
__device__ inline Strand DecodeWork::strandAt(const AttentionInput& input, int tile,
                                              int rowsOfStrand) const {
  // The last sequence that begins at the tile or before; those without tiles are passed over.
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
