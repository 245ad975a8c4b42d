// Attention over keys and values in blocks, for prefill chunks, decodes and token trees in one batch.
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over what row t sees
// Shapes   query, out [T, H, D]; cache: kv-cache.h; queryStarts [S + 1], contextLengths [S],
//          blockTables [S, M]; treeMask [T, W]
// Work     An item is up to kItemRows rows (tokens x query heads) of one kv head of one sequence.
//          Items that would keep one thread busy while others wait are cut by segments of the
//          context; their shares are merged in the order that an uncut item has (attention-tile.h).
// Bound    Decode: 2 D elements per cached token and kv head, read once. Prefill: 4 D flops per
//          query head and pair of positions; a segment's keys and values (128 KiB at D = 64 in f32)
//          stay in L2 for all tiles of an item.
// Checked  test/contracts/device-ops.ts, pagedAttention
#include "paged-attention.h"

#include <algorithm>
#include <type_traits>

#include "activation.h"
#include "attention-tile.h"

namespace perigee {

struct PagedAttentionParams {
  ThreadPool* pool;
  void* out;
  Int outFormat;
  const float* query;
  Int heads;
  KvLayerParams cache;
  Int sequences;
  const int32_t* queryStarts;
  const int32_t* contextLengths;
  const int32_t* blockTables;
  Int blocksPerTable;
  const uint32_t* treeMask;  // null: causal
  Int treeWords;
  Float scale;
  Int window;     // 0: all
  Float softcap;  // 0: none
};

namespace {

constexpr int kRowsPerConversion = 16;

template <typename T>
class PagedAttention {
 public:
  PagedAttention(const AttentionJob& job, const KvLayer<T>& layer)
      : job_(job),
        layer_(layer),
        group_(job.group()),
        shape_{layer.headDim, layer.valueStride, job.softcap},
        rowFloats_(int64_t{job.heads} * layer.headDim),
        writer_(job.out, job.outFormat, rowFloats_) {}

  void run() {
    static thread_local AttentionPlan plan;
    plan.make(job_);

    // Shares of cut items, then rows that still have to be rounded.
    const bool direct = job_.outFormat == Format::f32;
    const int64_t rowsEnd = job_.queryStarts[job_.sequences];
    states_ = job_.pool->scratch<float>(plan.stateFloats + (direct ? 0 : rowsEnd * rowFloats_));
    rows_ = direct ? static_cast<float*>(job_.out) : states_ + plan.stateFloats;

    // thread_local names a different plan on every worker: they are given this one.
    const AttentionPlan& shared = plan;
    const auto pieces = static_cast<int64_t>(plan.pieces.size());
    job_.pool->parallelFor(pieces, [&](int64_t task, int thread) {
      const AttentionPiece& piece = shared.pieces[static_cast<size_t>(task)];
      attend(shared.items[static_cast<size_t>(piece.item)], piece, thread);
    });
    const auto cut = static_cast<int64_t>(plan.cutItems.size());
    job_.pool->parallelFor(cut, [&](int64_t task, int thread) {
      const int item = shared.cutItems[static_cast<size_t>(task)];
      mergePieces(shared.items[static_cast<size_t>(item)], thread);
    });
    if (!direct) convertRows(rowsEnd);
  }

 private:
  // What a thread needs to work on one item.
  struct Workspace {
    float* query;   // [tiles][D][R]
    float* scores;  // [kRowsMax][kScoreStride]
    RowStates total;
    RowStates part;
    T* gathered;  // keys and values of a segment, where blocks are no multiple of a group
  };

  int stateStride() const { return RowStates::floatsPerRow(shape_.valueStride); }

  // A share of a cut item, for one segment.
  RowStates sharedStates(const AttentionItem& item, int segment) const {
    const int64_t before = int64_t{segment - item.segment} * item.rows * stateStride();
    return RowStates(states_ + item.states + before, shape_.valueStride);
  }

  Workspace workspace(int thread) const {
    const int64_t query = int64_t{kItemRows} * shape_.headDim;
    const int64_t scores = int64_t{kRowsMax} * kScoreStride;
    const int64_t total = int64_t{kItemRows} * stateStride();
    const int64_t part = int64_t{kRowsMax} * stateStride();
    const int64_t gathered = int64_t{kSegmentTokens} * (shape_.headDim + shape_.valueStride);
    float* const memory =
        job_.pool->scratch<float>(query + scores + total + part + gathered, thread);
    return {memory, memory + query, RowStates(memory + query + scores, shape_.valueStride),
            RowStates(memory + query + scores + total, shape_.valueStride),
            reinterpret_cast<T*>(memory + query + scores + total + part)};
  }

  void attend(const AttentionItem& item, const AttentionPiece& piece, int thread) const {
    const Workspace space = workspace(thread);
    RowSight sights[kItemRows];
    RowTile tiles[kItemTiles];
    const int tileCount = makeTiles(item, space, sights, tiles);

    if (item.states < 0) space.total.clear(item.rows);
    for (int segment = piece.segment; segment < piece.segmentEnd; ++segment) {
      const SegmentView<T> view = viewOf(item, segment, tiles, tileCount, space.gathered);
      for (int t = 0; t < tileCount; ++t) {
        const int row = t * kRowsMax;
        if (item.states >= 0) {
          attendSegment(view, tiles[t], shape_, space.scores,
                        sharedStates(item, segment).from(row));
        } else if (tiles[t].end > view.firstPosition) {
          attendSegment(view, tiles[t], shape_, space.scores, space.part);
          mergeStates(space.total.from(row), space.part, tiles[t].rows, shape_.valueStride);
        }
      }
    }
    if (item.states < 0) finish(item, space.total);
  }

  // Rows of an item in tiles, their queries scaled and turned to [D][R].
  int makeTiles(const AttentionItem& item, const Workspace& space, RowSight* sights, RowTile* tiles) const {
    const int64_t firstToken = job_.queryStarts[item.sequence];
    const float scale = job_.scale;
    int count = 0;
    for (int first = 0; first < item.rows; first += kRowsMax, ++count) {
      const int rows = std::min(kRowsMax, item.rows - first);
      float* const query = space.query + int64_t{first} * shape_.headDim;
      int begin = job_.contextLengths[item.sequence], end = 0;
      for (int r = 0; r < rows; ++r) {
        const int row = item.firstRow + first + r;
        const float* from = job_.query + (firstToken + row / group_) * job_.queryStride +
                            (item.kvHead * group_ + row % group_) * shape_.headDim;
        for (int d = 0; d < shape_.headDim; ++d) query[d * rows + r] = from[d] * scale;
        const RowSight sight = sights[first + r] = job_.sightOf(item.sequence, row);
        begin = std::min(begin, sight.begin);
        end = std::max(end, sight.end);
      }
      tiles[count] = {rows, query, sights + first, begin, end};
    }
    return count;
  }

  SegmentView<T> viewOf(const AttentionItem& item, int segment, const RowTile* tiles,
                        int tileCount, T* gathered) const {
    const bool whole = layer_.blockTokens % kGroupTokens == 0;
    SegmentView<T> view;
    view.firstPosition = segment * kSegmentTokens;
    view.keyStride = whole ? layer_.blockTokens : kGroupTokens;
    const int end = tiles[tileCount - 1].end;
    for (int group = 0; group < kSegmentGroups; ++group) {
      const int position = view.firstPosition + group * kGroupTokens;
      const int from = std::max(tiles[0].begin, position);
      const int to = std::min(end, position + kGroupTokens);
      if (from >= to) continue;
      if (whole) {
        pointAt(item, position, end, view, group);
      } else {
        const int stride = shape_.headDim + shape_.valueStride;
        T* const keys = gathered + int64_t{group} * kGroupTokens * stride;
        T* const values = keys + kGroupTokens * shape_.headDim;
        gather(item, from, to, keys, values);
        view.keys[group] = view.later[group] = keys;
        view.values[group] = values;
      }
    }
    return view;
  }

  // The group at `position`, where it lies in the cache, and the one a segment later.
  void pointAt(const AttentionItem& item, int position, int end, SegmentView<T>& view,
               int group) const {
    const int block = blockOf(item.sequence, position);
    const int offset = position % layer_.blockTokens;
    view.keys[group] = layer_.keys(block, item.kvHead) + offset;
    view.values[group] =
        layer_.values(block, item.kvHead) + int64_t{offset} * shape_.valueStride;
    const int ahead = position + kSegmentTokens;
    view.later[group] = ahead < end ? layer_.keys(blockOf(item.sequence, ahead), item.kvHead) +
                                          ahead % layer_.blockTokens
                                    : view.keys[group];
  }

  // Positions from `begin` to `end` of one group, in the layout of a block of 16.
  void gather(const AttentionItem& item, int begin, int end, T* keys, T* values) const {
    for (int position = begin; position < end; ++position) {
      const int block = blockOf(item.sequence, position);
      const int offset = position % layer_.blockTokens;
      const int place = position % kGroupTokens;
      const T* key = layer_.keys(block, item.kvHead) + offset;
      for (int d = 0; d < shape_.headDim; ++d) {
        keys[d * kGroupTokens + place] = key[int64_t{d} * layer_.blockTokens];
      }
      const T* value = layer_.values(block, item.kvHead) + int64_t{offset} * shape_.valueStride;
      std::copy_n(value, shape_.valueStride, values + int64_t{place} * shape_.valueStride);
    }
  }

  int blockOf(int sequence, int position) const {
    return job_.blockTables[sequence * job_.blocksPerTable + position / layer_.blockTokens];
  }

  void mergePieces(const AttentionItem& item, int thread) const {
    const RowStates total = workspace(thread).total;
    total.clear(item.rows);
    for (int segment = item.segment; segment < item.segmentEnd; ++segment) {
      mergeStates(total, sharedStates(item, segment), item.rows, shape_.valueStride);
    }
    finish(item, total);
  }

  void finish(const AttentionItem& item, const RowStates& total) const {
    for (int r = 0; r < item.rows; ++r) {
      const int row = item.firstRow + r;
      const int64_t token = job_.queryStarts[item.sequence] + row / group_;
      const int head = item.kvHead * group_ + row % group_;
      finishRow(rows_ + token * rowFloats_ + head * shape_.headDim, total, r, shape_.headDim);
    }
  }

  void convertRows(int64_t rowsEnd) const {
    const int64_t tasks = (rowsEnd + kRowsPerConversion - 1) / kRowsPerConversion;
    job_.pool->parallelFor(tasks, [&](int64_t task, int) {
      const int64_t end = std::min<int64_t>((task + 1) * kRowsPerConversion, rowsEnd);
      for (int64_t row = task * kRowsPerConversion; row < end; ++row) {
        writer_.finish(row, rows_ + row * rowFloats_);
      }
    });
  }

  const AttentionJob& job_;
  const KvLayer<T> layer_;
  const int group_;
  const AttentionShape shape_;
  const int64_t rowFloats_;
  const ActivationWriter writer_;
  float* states_ = nullptr;
  float* rows_ = nullptr;
};

}  // namespace

void attendBlocks(const AttentionJob& job) {
  withKvLayer(job.cache, [&](const auto& layer) {
    using Layer = std::decay_t<decltype(layer)>;
    PagedAttention<typename Layer::Type>(job, layer).run();
  });
}

PERIGEE_EXPORT void perigee_paged_attention(const PagedAttentionParams* params) {
  const PagedAttentionParams& p = *params;
  AttentionJob job;
  job.pool = p.pool;
  job.out = p.out;
  job.outFormat = formatOf(p.outFormat);
  job.query = p.query;
  job.heads = static_cast<int>(p.heads);
  job.cache = kvPoolOf(p.cache);
  job.queryStride = int64_t{job.heads} * job.cache.headDim;
  job.sequences = static_cast<int>(p.sequences);
  job.queryStarts = p.queryStarts;
  job.contextLengths = p.contextLengths;
  job.blockTables = p.blockTables;
  job.blocksPerTable = p.blocksPerTable;
  job.treeMask = p.treeMask;
  job.treeWords = p.treeWords;
  job.scale = p.scale;
  job.window = static_cast<int>(p.window);
  job.softcap = p.softcap;
  job.everyone = false;
  attendBlocks(job);
}

}  // namespace perigee
