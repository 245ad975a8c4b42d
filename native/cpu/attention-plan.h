// Work partition of attention: which rows and segments each task computes.
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
  const int32_t* treeStarts;  // [S], or null: at each sequence's first row
  float scale;
  int window;     // attention window in positions, sinks not counted; 0: none
  float softcap;  // 0: no softcap
  bool everyone;  // bidirectional: every row attends to its whole sequence
  int reach;      // `everyone`: only to positions at most so far away; 0: to all
  int sinks;      // attention sinks, visible beside the window; 0: none
  const float* sinkQuery;  // like `query`, but rotated for the sink keys

  int group() const { return heads / cache.kvHeads; }
  int queryRows(int sequence) const { return queryStarts[sequence + 1] - queryStarts[sequence]; }

  // `row` = token * group + head, counted inside the sequence and the kv head's group.
  RowMask maskOf(int sequence, int row) const;
  // First position beside the sinks that one of `count` rows sees.
  int beginOf(int sequence, int first, int count) const;
};

// An item is up to kItemRows rows of one kv head of one sequence.
constexpr int kItemRows = 96;
constexpr int kItemTiles = kItemRows / kRowsMax;
static_assert(kItemTiles * kRowsMax == kItemRows, "an item is whole tiles");

struct AttentionItem {
  int sequence, kvHead;
  int firstRow, rows;
  int sinkSegments;         // leading segments of the context that hold only sinks for these rows
  int segment, segmentEnd;  // the other segments of the context that are visible to any row
  int64_t states;           // offset of its partial results in floats; -1: the item is not split

  // Number of visible segments: those between the sinks and the window are skipped.
  int segments() const { return sinkSegments + segmentEnd - segment; }
  int segmentAt(int index) const {
    return index < sinkSegments ? index : segment + index - sinkSegments;
  }
};

// Visible segments [begin, end) of an item, numbered as in `segmentAt`.
struct AttentionTask {
  int item;
  int begin, end;
};

struct AttentionPlan {
  std::vector<AttentionItem> items;
  std::vector<AttentionTask> tasks;
  std::vector<int> splitItems;
  int64_t stateFloats;  // floats of the partial results of all split items

  // Reuses the vectors' memory: no allocation after the largest step so far.
  void make(const AttentionJob& job);

 private:
  int64_t addItems(const AttentionJob& job, int sequence, int itemsWanted);
  void split(int index, int64_t costMax, int64_t stateFloatsPerRow);
};

}  // namespace perigee
