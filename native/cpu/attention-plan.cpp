#include "attention-plan.h"

#include <algorithm>
#include <limits>

namespace perigee {
namespace {

// An item is split along its context when it costs more than (total / threads) / kTasksPerThread.
constexpr int kTasksPerThread = 2;

// Number of segments that cover positions [0, end).
int segmentsOf(int end) { return (end + kSegmentTokens - 1) / kSegmentTokens; }

int64_t costOf(const AttentionItem& item) {
  return int64_t{item.rows} * item.segments();
}

}  // namespace

RowMask AttentionJob::maskOf(int sequence, int row) const {
  const int context = contextLengths[sequence];
  if (everyone) {
    const int own = row / group();
    const int begin = reach > 0 ? std::max(0, own - reach) : 0;
    const int end = reach > 0 ? std::min(context, own + reach + 1) : context;
    return {0, begin, end, 0, 0, nullptr};
  }
  const int firstNew = context - queryRows(sequence);
  const int token = row / group();
  const int own = firstNew + token;
  const auto windowBegin = [&](int position) {
    return window > 0 ? std::max(0, position - window + 1) : 0;
  };
  if (treeMask == nullptr) {
    return {std::min(sinks, own + 1), windowBegin(own), own + 1, 0, 0, nullptr};
  }
  const uint32_t* const hidden = treeMask + (queryStarts[sequence] + token) * treeWords;
  int hiddenRows = 0;
  for (int64_t word = 0; word < treeWords; ++word) hiddenRows += __builtin_popcount(hidden[word]);
  const int treeStart = treeStarts == nullptr ? firstNew : treeStarts[sequence];
  const int treeEnd = static_cast<int>(std::min<int64_t>(context, treeStart + treeWords * 32));
  return {0, windowBegin(own - hiddenRows), own + 1, treeStart, treeEnd, hidden};
}

int AttentionJob::beginOf(int sequence, int first, int count) const {
  int begin = maskOf(sequence, first).begin;
  // Nodes of a tree that are siblings have the same position: later rows may begin earlier.
  if (window == 0 || treeMask == nullptr) return begin;
  for (int row = first + 1; row < first + count; ++row) {
    begin = std::min(begin, maskOf(sequence, row).begin);
  }
  return begin;
}

void AttentionPlan::make(const AttentionJob& job) {
  items.clear();
  tasks.clear();
  splitItems.clear();
  stateFloats = 0;
  int64_t cost = 0;
  const int threads = job.pool->threads();
  const int heads = job.sequences * job.cache.kvHeads;
  const int itemsPerHead = heads == 0 ? 1 : std::max(1, threads / heads);
  for (int sequence = 0; sequence < job.sequences; ++sequence) {
    cost += addItems(job, sequence, itemsPerHead);
  }

  const int64_t costMax =
      threads == 1 ? std::numeric_limits<int64_t>::max() : cost / (kTasksPerThread * threads);
  const int64_t perRow = RowStates::floatsPerRow(valueStrideOf(job.cache.headDim));
  for (size_t i = 0; i < items.size(); ++i) split(static_cast<int>(i), costMax, perRow);
}

int64_t AttentionPlan::addItems(const AttentionJob& job, int sequence, int itemsWanted) {
  const int rows = job.queryRows(sequence) * job.group();
  int64_t cost = 0;
  if (rows <= 0) return cost;
  // A longer context is split along its positions instead, so that each key is read once.
  const bool isShort = segmentsOf(job.contextLengths[sequence]) == 1;
  const int rowsMax = isShort ? std::clamp((rows + itemsWanted - 1) / itemsWanted, 1, kItemRows)
                              : kItemRows;

  // Later rows attend to more positions. Items are listed longest first, so that threads finish
  // together.
  for (int first = (rows - 1) / rowsMax * rowsMax; first >= 0; first -= rowsMax) {
    const int count = std::min(rowsMax, rows - first);
    const int begin = job.beginOf(sequence, first, count);
    const RowMask last = job.maskOf(sequence, first + count - 1);
    const int segmentEnd = last.end > begin ? segmentsOf(last.end) : 0;
    const int segment = std::min(begin / kSegmentTokens, segmentEnd);
    const int sinkSegments = std::min(segmentsOf(last.sinkEnd), segment);
    for (int kvHead = 0; kvHead < job.cache.kvHeads; ++kvHead) {
      items.push_back({sequence, kvHead, first, count, sinkSegments, segment, segmentEnd, -1});
      cost += costOf(items.back());
    }
  }
  return cost;
}

// Splits an item that costs more than `costMax` and has more than one segment.
void AttentionPlan::split(int index, int64_t costMax, int64_t stateFloatsPerRow) {
  AttentionItem& item = items[static_cast<size_t>(index)];
  const int64_t segments = item.segments();
  const int64_t fit = std::clamp<int64_t>(costMax / item.rows, 1, std::max<int64_t>(segments, 1));
  if (fit < segments) {
    item.states = stateFloats;
    stateFloats += segments * item.rows * stateFloatsPerRow;
    splitItems.push_back(index);
  }
  // An item without segments still gets one task: its output rows must be zeroed.
  int begin = 0;
  do {
    const int end = static_cast<int>(std::min<int64_t>(begin + fit, segments));
    tasks.push_back({index, begin, end});
    begin = end;
  } while (begin < segments);
}

}  // namespace perigee
