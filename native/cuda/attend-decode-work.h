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
  int firstToken;
  int tokens;
  int context;
  SeenTiles seen;
  Tiles tiles;
  DecodeSight any;    // what some row sees: all else is not read
  DecodeSight every;  // what all rows see

  /// Of row `row` of the sequence; of none behind the last.
  __device__ DecodeSight sightOf(const AttentionInput& input, int row) const {
    const int group = input.group();
    if (row >= tokens * group) return {0, 0};
    const int end = context - tokens + row / group + 1;
    const int window = input.rows.window;
    return {window > 0 ? max(0, end - window) : 0, end};
  }

  /// Whether every row sees all of a tile beside the sinks.
  __device__ bool whole(int tile) const {
    const int first = tile * kTileTokens;
    return first >= every.begin && first + kTileTokens <= every.end;
  }

  /// Element 0 of a row in [T, H, D]; negative behind the last row.
  __device__ int64_t at(const AttentionInput& input, int row) const {
    if (row >= rows) return -1;
    const int group = input.group();
    const int64_t token = firstToken + (firstRow + row) / group;
    const int head = kvHead * group + (firstRow + row) % group;
    return (token * input.heads + head) * input.cache.headDim;
  }
};

/// The work of all blocks, known to each. In shared memory.
struct DecodeWork {
  int tilesBefore[kSequencesMax + 1];  // of one strand of each sequence before
  int warpTiles[kDecodeWarps];
  int strands;  // of one sequence
  int blocks;   // that have work
  int total;    // tiles of all strands

  /// Counts the tiles. All threads call it, and see the result.
  __device__ void open(const AttentionInput& input, int strandsOfSequence);

  /// What part `part` of `parts` has of `all`.
  __device__ static Tiles share(Tiles all, int part, int parts) {
    const int64_t count = all.end - all.begin;
    return {all.begin + static_cast<int>(count * part / parts),
            all.begin + static_cast<int>(count * (part + 1) / parts)};
  }

  __device__ Tiles ofBlock(int block) const { return share({0, total}, block, blocks); }

  /// The block that has a tile: the last one that begins at it or before.
  __device__ int blockOf(int tile) const {
    return static_cast<int>((static_cast<int64_t>(tile + 1) * blocks - 1) / total);
  }

  __device__ Strand strandOf(const AttentionInput& input, int tile, int rowsOfStrand) const;
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
  for (int i = first; i < last; ++i) own += seenTilesOf(input, i).count;
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
    tilesBefore[i] = before;
    before += seenTilesOf(input, i).count;
  }
  if (thread == 0) {
    constexpr int kBlockTilesMin = kWarpTilesMin * kDecodeWarps;
    tilesBefore[sequences] = all;
    strands = strandsOfSequence;
    total = all * strandsOfSequence;
    const int wanted = (total + kBlockTilesMin - 1) / kBlockTilesMin;
    blocks = max(1, min(wanted, static_cast<int>(gridDim.x)));
  }
  __syncthreads();
}

/// The strand that a tile belongs to, of strands of `rowsOfStrand` rows.
__device__ inline Strand DecodeWork::strandOf(const AttentionInput& input, int tile,
                                              int rowsOfStrand) const {
  // The last sequence that begins at the tile or before; those without tiles are passed over.
  int sequence = 0;
  int behind = input.rows.sequences;
  while (behind - sequence > 1) {
    const int middle = (sequence + behind) / 2;
    if (tilesBefore[middle] <= tile / strands) {
      sequence = middle;
    } else {
      behind = middle;
    }
  }
  Strand strand;
  strand.sequence = sequence;
  strand.seen = seenTilesOf(input, sequence);
  strand.firstToken = input.rows.queryStarts[sequence];
  strand.tokens = input.rows.queryStarts[sequence + 1] - strand.firstToken;
  strand.context = input.rows.contextLengths[sequence];

  const int start = tilesBefore[sequence] * strands;
  const int number = (tile - start) / strand.seen.count;
  const int parts = strands / input.cache.kvHeads;
  const int rows = strand.tokens * input.group();
  strand.kvHead = number / parts;
  strand.firstRow = number % parts * rowsOfStrand;
  strand.rows = min(rowsOfStrand, rows - strand.firstRow);
  strand.tiles.begin = start + number * strand.seen.count;
  strand.tiles.end = strand.tiles.begin + strand.seen.count;
  const DecodeSight first = strand.sightOf(input, 0);
  const DecodeSight last = strand.sightOf(input, rows - 1);
  strand.any = {first.begin, last.end};
  strand.every = {last.begin, first.end};
  return strand;
}

}  // namespace perigee
