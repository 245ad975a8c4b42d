// Attention over keys and values in blocks: prefill chunks, decodes and token trees in one batch.
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
        reader_(job, layer),
        group_(job.group()),
        shape_{layer.layout.headDim, layer.layout.valueStride, job.softcap},
        rowFloats_(int64_t{job.heads} * layer.layout.headDim),
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
  using Word = typename Products<T>::Word;

  // What a thread needs to work on one item.
  struct Workspace {
    Word* query;    // [tiles][D][R], and room for a tile
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
    const int64_t query =
        (kItemRows + kRowsMax) * wordsPerQuery() * int64_t{sizeof(Word)} / int64_t{sizeof(float)};
    const int64_t scores = int64_t{kRowsMax} * kScoreStride;
    const int64_t total = int64_t{kItemRows} * stateStride();
    const int64_t part = int64_t{kRowsMax} * stateStride();
    const int64_t gathered = reader_.gatheredElements();
    float* const memory =
        job_.pool->scratch<float>(query + scores + total + part + gathered, thread);
    return {reinterpret_cast<Word*>(memory), memory + query,
            RowStates(memory + query + scores, shape_.valueStride),
            RowStates(memory + query + scores + total, shape_.valueStride),
            reinterpret_cast<T*>(memory + query + scores + total + part)};
  }

  int64_t wordsPerQuery() const { return Products<T>::wordsOf(shape_.headDim); }

  void attend(const AttentionItem& item, const AttentionPiece& piece, int thread) const {
    const Workspace space = workspace(thread);
    RowSight sights[kItemRows];
    RowTile tiles[kItemTiles];
    const int tileCount = makeTiles(item, space, sights, tiles);

    if (item.states < 0) space.total.clear(item.rows);
    for (int segment = piece.segment; segment < piece.segmentEnd; ++segment) {
      const SegmentView<T> view = reader_.view(item, segment, tiles[0].begin,
                                               tiles[tileCount - 1].end, space.gathered);
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
  int makeTiles(const AttentionItem& item, const Workspace& space, RowSight* sights,
                RowTile* tiles) const {
    const int64_t firstToken = job_.queryStarts[item.sequence];
    const int64_t words = wordsPerQuery();
    Word* const turned = space.query + kItemRows * words;  // one tile as [R][D]
    int count = 0;
    for (int first = 0; first < item.rows; first += kRowsMax, ++count) {
      const int rows = std::min(kRowsMax, item.rows - first);
      Word* const query = space.query + first * words;
      int begin = job_.contextLengths[item.sequence], end = 0;
      for (int r = 0; r < rows; ++r) {
        const int row = item.firstRow + first + r;
        const float* const from = job_.query + (firstToken + row / group_) * job_.queryStride +
                                  (item.kvHead * group_ + row % group_) * shape_.headDim;
        Products<T>::setWords(turned + r * words, from, shape_.headDim, job_.scale);
        const RowSight sight = sights[first + r] = job_.sightOf(item.sequence, row);
        begin = std::min(begin, sight.begin);
        end = std::max(end, sight.end);
      }
      for (int64_t word = 0; word < words; ++word) {
        for (int r = 0; r < rows; ++r) query[word * rows + r] = turned[r * words + word];
      }
      tiles[count] = {rows, query, sights + first, begin, end};
    }
    return count;
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
  job.scale = p.scale * job.cache.keyScale;
  job.window = static_cast<int>(p.window);
  job.softcap = p.softcap;
  job.everyone = false;
  attendBlocks(job);
}

}  // namespace perigee
