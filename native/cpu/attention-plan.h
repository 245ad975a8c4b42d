// What attention has to do, and how it is dealt out to threads.
//
// S sequences · T rows · H query heads · K kv heads · D head dim · M blocks per table
#pragma once

#include <vector>

#include "attention-tile.h"
#include "kv-pool.h"
#include "params.h"
#include "thread-pool.h"

namespace perigee {

struct AttentionJob {
  ThreadPool* pool;
  void* out;  // [T, H * D]
  Format outFormat;
  const float* query;  // [T] rows of H * D floats, queryStride apart
  int64_t queryStride;
  int heads;
  KvPool cache;
  int sequences;
  const int32_t* queryStarts;     // [S + 1]
  const int32_t* contextLengths;  // [S]
  const int32_t* blockTables;     // [S, M]
  int64_t blocksPerTable;
  const uint32_t* treeMask;  // [T, W], or null
  int64_t treeWords;
  float scale;
  int window;     // last positions that a row sees; 0: all
  float softcap;  // 0: none
  bool everyone;  // no causality: every row sees its whole sequence
  int sinks;      // first positions, seen beside the window's; 0: none
  const float* sinkQuery;  // like `query`, scores the sinks

  int group() const { return heads / cache.kvHeads; }
  int queryRows(int sequence) const { return queryStarts[sequence + 1] - queryStarts[sequence]; }

  // `row` counts token * group + head inside the sequence.
  RowSight sightOf(int sequence, int row) const;
};

// Up to kItemRows rows of one kv head of one sequence.
constexpr int kItemRows = 96;
constexpr int kItemTiles = kItemRows / kRowsMax;
static_assert(kItemTiles * kRowsMax == kItemRows, "an item is whole tiles");

struct AttentionItem {
  int sequence, kvHead;
  int firstRow, rows;
  int sinkSegments;         // of the context, leading ones that hold only sinks for its rows
  int segment, segmentEnd;  // of the context, all others that any row sees
  int64_t states;           // where its shares begin, in floats; -1: the item is not cut

  // Its segments counted without the hidden ones between sinks and window.
  int segments() const { return sinkSegments + segmentEnd - segment; }
  int segmentAt(int place) const {
    return place < sinkSegments ? place : segment + place - sinkSegments;
  }
};

// Consecutive segments of an item, as `segmentAt` counts them: what one task does.
struct AttentionPiece {
  int item;
  int place, placeEnd;
};

struct AttentionPlan {
  std::vector<AttentionItem> items;
  std::vector<AttentionPiece> pieces;
  std::vector<int> cutItems;
  int64_t stateFloats;  // shares of all cut items

  // Reuses the vectors' memory: a step allocates nothing once the largest one was seen.
  void make(const AttentionJob& job);

 private:
  int64_t addItems(const AttentionJob& job, int sequence);
  void cut(int index, int64_t costMax, int64_t stateFloatsPerRow);
};

}  // namespace perigee
