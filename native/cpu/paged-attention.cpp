// Paged attention: prefill chunks, decodes and token trees in one batch.
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over the positions
//          visible to t
// Shapes   query, out [T, H, D]; cache: kv-pool.h; queryStarts [S + 1], contextLengths [S],
//          blockTables [S, M]; treeMask [T, W]; treeStarts [S]; sinkQuery [T, H, D]
// Work     An item is up to kItemRows rows (tokens x query heads) of one kv head of one sequence.
//          An item that costs much more than a thread's share of the work is split along the
//          context (as in flash-decoding), by whole segments. Its partial results are merged in the
//          same order as in an unsplit item (attention-tile.h).
// Bound    Decode, memory: 2 D elements per cached token and kv head, read once. Prefill, compute:
//          4 D flops per query head and pair of positions. A segment's keys and values (128 KiB at
//          D = 64 in f32) stay in L2 for all tiles of an item.
// Checked  test/contracts/device-ops.ts, pagedAttention
//
//    one kv head of one sequence         context: segments of 256 positions
//                                       seg 0   seg 1   seg 2   seg 3
//    item 0, rows 0..95    tile 0..7  [ one task: all segments in order        ] -> out
//    item 1, rows 96..     tile 0..7  [ one task                               ] -> out
//    split item (decode)   tile 0     [ task ] [ task ] [ task ] [ task ] -> merge -> out
#include "paged-attention.h"

#include <algorithm>
#include <type_traits>

#include "activation.h"
#include "attention-tile.h"
#include "block-reader.h"

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
  const int32_t* treeStarts;  // null: at each sequence's first row
  Float scale;
  Int window;     // sinks not counted; 0: none
  Float softcap;  // 0: no softcap
  const float* sinkQuery;
  Int sinks;  // 0: no sinks
};

namespace {

constexpr int kRowsPerConversion = 16;

template <typename T>
class PagedAttention {
 public:
  PagedAttention(const AttentionJob& job, const KvLayer<T>& layer)
      : job_(job),
        reader_(job, layer),
        group_(job.group()),
        shape_{layer.layout.headDim, layer.layout.valueStride, job.softcap},
        rowFloats_(int64_t{job.heads} * layer.layout.headDim),
        writer_(job.out, job.outFormat, rowFloats_) {}

  void run() {
    static thread_local AttentionPlan plan;
    plan.make(job_);

    // Partial results of split items, then f32 rows that still have to be converted to the output
    // format.
    const bool direct = job_.outFormat == Format::f32;
    const int64_t rowsEnd = job_.queryStarts[job_.sequences];
    states_ = job_.pool->scratch<float>(plan.stateFloats + (direct ? 0 : rowsEnd * rowFloats_));
    rows_ = direct ? static_cast<float*>(job_.out) : states_ + plan.stateFloats;

    // `plan` is thread_local: on a worker thread the name would mean the worker's own object. So
    // the lambda captures a reference to this one.
    const AttentionPlan& shared = plan;
    const auto tasks = static_cast<int64_t>(plan.tasks.size());
    job_.pool->parallelFor(tasks, [&](int64_t index, int thread) {
      const AttentionTask& task = shared.tasks[static_cast<size_t>(index)];
      attend(shared.items[static_cast<size_t>(task.item)], task, thread);
    });
    const auto splitItems = static_cast<int64_t>(plan.splitItems.size());
    job_.pool->parallelFor(splitItems, [&](int64_t index, int thread) {
      const int item = shared.splitItems[static_cast<size_t>(index)];
      mergeSegments(shared.items[static_cast<size_t>(item)], thread);
    });
    if (!direct) convertRows(rowsEnd);
  }

 private:
  using Word = typename Products<T>::Word;

  // A thread's buffers for one item.
  struct Workspace {
    Word* query;      // [tiles][D][R], then room for one more tile
    Word* sinkQuery;  // [tiles][D][R]
    float* scores;    // [kRowsMax][kScoreStride]
    RowStates total;
    RowStates part;
    T* gathered;  // copied keys and values of a segment, where blocks are no multiple of a group
  };

  int stateStride() const { return RowStates::floatsPerRow(shape_.valueStride); }

  // The partial result of a split item for one of its segments.
  RowStates partialStates(const AttentionItem& item, int segment) const {
    const int64_t before = int64_t{segment} * item.rows * stateStride();
    return RowStates(states_ + item.states + before, shape_.valueStride);
  }

  Workspace workspace(int thread) const {
    const int64_t words = wordsPerQuery();
    const int64_t rows = kItemRows + kRowsMax + (job_.sinks > 0 ? kItemRows : 0);
    const int64_t query = rows * words * int64_t{sizeof(Word)} / int64_t{sizeof(float)};
    const int64_t scores = int64_t{kRowsMax} * kScoreStride;
    const int64_t total = int64_t{kItemRows} * stateStride();
    const int64_t part = int64_t{kRowsMax} * stateStride();
    const int64_t gathered = reader_.gatheredElements();
    float* const memory =
        job_.pool->scratch<float>(query + scores + total + part + gathered, thread);
    Word* const queries = reinterpret_cast<Word*>(memory);
    return {queries,
            queries + (kItemRows + kRowsMax) * words,
            memory + query,
            RowStates(memory + query + scores, shape_.valueStride),
            RowStates(memory + query + scores + total, shape_.valueStride),
            reinterpret_cast<T*>(memory + query + scores + total + part)};
  }

  int64_t wordsPerQuery() const { return Products<T>::wordsOf(shape_.headDim); }

  void attend(const AttentionItem& item, const AttentionTask& task, int thread) const {
    const Workspace space = workspace(thread);
    RowMask masks[kItemRows];
    RowTile tiles[kItemTiles];
    const int tileCount = makeTiles(item, space, masks, tiles);

    if (item.states < 0) space.total.clear(item.rows);
    const RowTile& last = tiles[tileCount - 1];
    int begin = last.begin;
    for (int t = 0; t + 1 < tileCount; ++t) begin = std::min(begin, tiles[t].begin);
    const SeenPositions seen = {last.sinkEnd, begin, last.end};
    for (int segment = task.begin; segment < task.end; ++segment) {
      const SegmentView<T> view =
          reader_.view(item, item.segmentAt(segment), seen, space.gathered);
      for (int t = 0; t < tileCount; ++t) {
        const int row = t * kRowsMax;
        if (item.states >= 0) {
          attendSegment(view, tiles[t], shape_, space.scores,
                        partialStates(item, segment).from(row));
        } else if (tiles[t].end > view.firstPosition) {
          attendSegment(view, tiles[t], shape_, space.scores, space.part);
          mergeStates(space.total.from(row), space.part, tiles[t].rows, shape_.valueStride);
        }
      }
    }
    if (item.states < 0) finish(item, space.total);
  }

  // Splits the rows of an item into tiles.
  int makeTiles(const AttentionItem& item, const Workspace& space, RowMask* masks,
                RowTile* tiles) const {
    const int64_t words = wordsPerQuery();
    Word* const scratch = space.query + kItemRows * words;
    int count = 0;
    for (int first = 0; first < item.rows; first += kRowsMax, ++count) {
      RowTile& tile = tiles[count];
      tile.rows = std::min(kRowsMax, item.rows - first);
      tile.masks = masks + first;
      tile.sinkEnd = tile.end = 0;
      tile.begin = job_.contextLengths[item.sequence];
      for (int r = 0; r < tile.rows; ++r) {
        const RowMask mask = masks[first + r] =
            job_.maskOf(item.sequence, item.firstRow + first + r);
        tile.sinkEnd = std::max(tile.sinkEnd, mask.sinkEnd);
        tile.begin = std::min(tile.begin, mask.begin);
        tile.end = std::max(tile.end, mask.end);
      }
      tile.query = transposeQueries(job_.query, item, first, tile.rows,
                                    {space.query + first * words, scratch});
      tile.sinkQuery = tile.sinkEnd == 0
                           ? nullptr
                           : transposeQueries(job_.sinkQuery, item, first, tile.rows,
                                              {space.sinkQuery + first * words, scratch});
    }
    return count;
  }

  struct Transposed {
    Word* to;       // [D][R]
    Word* scratch;  // [R][D]
  };

  // Scales the queries of `rows` rows of an item, from its row `first` on, and transposes them to
  // [D][R].
  const Word* transposeQueries(const float* queries, const AttentionItem& item, int first, int rows,
                               Transposed transposed) const {
    const int64_t firstToken = job_.queryStarts[item.sequence];
    const int64_t words = wordsPerQuery();
    for (int r = 0; r < rows; ++r) {
      const int row = item.firstRow + first + r;
      const float* const from = queries + (firstToken + row / group_) * job_.queryStride +
                                (item.kvHead * group_ + row % group_) * shape_.headDim;
      Products<T>::setWords(transposed.scratch + r * words, from, shape_.headDim, job_.scale);
    }
    for (int64_t word = 0; word < words; ++word) {
      for (int r = 0; r < rows; ++r) {
        transposed.to[word * rows + r] = transposed.scratch[r * words + word];
      }
    }
    return transposed.to;
  }

  void mergeSegments(const AttentionItem& item, int thread) const {
    const RowStates total = workspace(thread).total;
    total.clear(item.rows);
    for (int segment = 0; segment < item.segments(); ++segment) {
      mergeStates(total, partialStates(item, segment), item.rows, shape_.valueStride);
    }
    finish(item, total);
  }

  void finish(const AttentionItem& item, const RowStates& total) const {
    for (int r = 0; r < item.rows; ++r) {
      const int row = item.firstRow + r;
      const int64_t token = job_.queryStarts[item.sequence] + row / group_;
      const int head = item.kvHead * group_ + row % group_;
      finishRow(rows_ + token * rowFloats_ + head * shape_.headDim, total, r, shape_.headDim,
                job_.cache.valueScale);
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
  const BlockReader<T> reader_;
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
  job.treeStarts = p.treeStarts;
  job.scale = p.scale * job.cache.keyScale;
  job.window = static_cast<int>(p.window);
  job.sinks = static_cast<int>(p.sinks);
  job.sinkQuery = p.sinkQuery;
  job.softcap = p.softcap;
  job.everyone = false;
  job.reach = 0;
  attendBlocks(job);
}

}  // namespace perigee
