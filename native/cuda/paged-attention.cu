// Paged attention on f32 units: prefill chunks, decodes and token trees in one batch, any format.
//
// Formula  out[t, h] = softmax(cap(scale * query[t, h] . keys)) . values, over the positions
//          visible to row t
// Shapes   query, out [T, H, D]; cache: kv-pool.h; queryStarts [S + 1], contextLengths [S],
//          blockTables [S, M]; treeMask [T, W]; sinkQuery [T, H, D]
// Work     attend_tiles     one block per query tile and kv head; it loops over the segments
//          attend_segments  one block per segment, query tile and kv head: split-KV; the
//                           partial results [T, H, segments] are merged by merge_segments, one
//                           block per row and query head
//          Both algorithms give the same bits (attention-segment.h).
//
//            positions        seg 0      seg 1      seg 2
//            attend_tiles     block ---> block ---> block ---> out        (one block)
//            attend_segments  block a    block b    block c ---> merge_segments ---> out
// Bound    decode, memory: 2 D elements per cached token and kv head. Prefill, compute: the f32
//          units, 4 D operations per query head and pair of positions
// Checked  bench/gpu/smoke.mjs, pagedAttention
#include "attention-segment.h"
#include "attention-input.h"

namespace perigee {

struct PagedAttentionParams {
  PackedRows out;  // f32 or bf16
  AttentionInput input;
  float* partials;  // partial results of segments; null for attend_tiles
  int segments;     // segments per row and head in `partials`
};

namespace {

/// Floats before the values of a partial result: max, sum, 2 of padding; then values [D].
constexpr int kPartialHeader = 4;

__device__ float* partialOf(const PagedAttentionParams& p, int64_t token, int head, int segment) {
  const int64_t index = (token * p.input.heads + head) * p.segments + segment;
  return p.partials + index * (kPartialHeader + p.input.cache.headDim);
}

/// Keys and values of one kv head of one sequence.
template <typename T>
struct BlockSource {
  using Element = T;
  static constexpr int kChunk = static_cast<int>(sizeof(uint4) / sizeof(T));

  struct Site {
    const T* key;
    const T* value;
    float keyScale;
    float valueScale;
  };

  const KvLayer& cache;
  const int* table;
  int kvHead;

  __device__ Site at(int position) const {
    const int block = table[position / cache.blockTokens];
    const int offset = position % cache.blockTokens;
    const uint8_t* const key = cache.key(block, offset, kvHead);
    Site site = {reinterpret_cast<const T*>(key),
                 reinterpret_cast<const T*>(key + cache.toValue()), cache.keyScale,
                 cache.valueScale};
    if (kScaled<T> && cache.tokenScales) {
      const Bf16* const scales = cache.scales(block, offset, kvHead);
      site.keyScale = widen(scales[0]);
      site.valueScale = widen(scales[cache.blockTokens]);
    }
    return site;
  }
};

/// A block's work: a query tile of one kv head.
struct TileJob {
  TileRows rows;
  int kvHead;
  int group;

  __device__ int token(int row) const { return (rows.first + row) / group; }
  __device__ int head(int row) const { return kvHead * group + (rows.first + row) % group; }
};

__device__ TileJob jobOf(const PagedAttentionParams& p, int tile, int kvHead) {
  const int group = p.input.heads / p.input.cache.kvHeads;
  return {tileRowsOf(p.input.rows, group, tile), kvHead, group};
}

/// Sets the rows' visible positions, the scaled queries and an empty state.
__device__ void openTile(AttentionTile& tile, const PagedAttentionParams& p, const TileJob& job) {
  const AttentionInput& input = p.input;
  const int dims = input.cache.headDim;
  const int row = static_cast<int>(threadIdx.x);
  if (row < job.rows.count) {
    tile.masks[row] = input.rows.maskOf(job.rows.sequence, job.token(row));
    tile.totalMax[row] = -infinity();
    tile.totalSum[row] = 0.0f;
  }
  const int64_t firstToken = input.rows.queryStarts[job.rows.sequence];
  for (int i = threadIdx.x; i < kTileRows * kHeadDimMax; i += blockDim.x) {
    const int r = i / kHeadDimMax;
    const int d = i % kHeadDimMax;
    const bool real = r < job.rows.count && d < dims;
    const int64_t at = ((firstToken + job.token(r)) * input.heads + job.head(r)) * dims + d;
    tile.query[r][d] = real ? input.query[at] * input.scale : 0.0f;
    tile.total[r][d] = 0.0f;
    if (input.sinkQuery == nullptr) continue;
    tile.sinkQuery[r][d] = real ? input.sinkQuery[at] * input.scale : 0.0f;
  }
  __syncthreads();
}

__device__ bool anyReaches(const AttentionTile& tile, int rows, int segment) {
  bool reaches = false;
  for (int r = 0; r < rows; ++r) reaches |= tile.masks[r].reaches(segment);
  return reaches;
}

template <typename T>
__device__ BlockSource<T> sourceOf(const PagedAttentionParams& p, const TileJob& job) {
  const int64_t table = job.rows.sequence * p.input.blocksPerTable;
  return {p.input.cache, p.input.blockTables + table, job.kvHead};
}

__device__ SegmentShape shapeOf(const PagedAttentionParams& p, const TileJob& job) {
  return {p.input.cache.headDim, job.rows.count, p.input.rows.sinks, p.input.softcap};
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kAttentionThreads, 2)
perigee_attend_tiles(const __grid_constant__ PagedAttentionParams p) {
  joinStream();
  __shared__ AttentionTile tile;
  const TileJob job = jobOf(p, blockIdx.x, blockIdx.y);
  if (job.rows.count == 0) return;
  openTile(tile, p, job);
  const SegmentShape shape = shapeOf(p, job);

  // The last row of a tile sees the furthest position.
  const int segmentEnd = tile.masks[job.rows.count - 1].segmentEnd();
  for (int segment = 0; segment < segmentEnd; ++segment) {
    if (!anyReaches(tile, shape.rows, segment)) continue;
    withElement(p.input.cache.element, [&](auto element) {
      attendSegment(tile, sourceOf<decltype(element)>(p, job), segment, shape);
    });
    mergeSegment(tile, shape);
  }

  const int64_t firstToken = p.input.rows.queryStarts[job.rows.sequence];
  for (int i = threadIdx.x; i < shape.rows * shape.headDim; i += blockDim.x) {
    const int r = i / shape.headDim;
    const int d = i % shape.headDim;
    storeElement(p.out, firstToken + job.token(r), job.head(r) * shape.headDim + d,
                 finished(tile.total[r][d], tile.totalSum[r]));
  }
}

PERIGEE_KERNEL __launch_bounds__(kAttentionThreads)
perigee_attend_segments(const __grid_constant__ PagedAttentionParams p) {
  joinStream();
  __shared__ AttentionTile tile;
  const int segment = blockIdx.x;
  const TileJob job = jobOf(p, blockIdx.z, blockIdx.y);
  if (job.rows.count == 0) return;

  // Exits for segments that no row of the tile sees: those after a short sequence or before a
  // window.
  const RowMask first = p.input.rows.maskOf(job.rows.sequence, job.token(0));
  const RowMask last = p.input.rows.maskOf(job.rows.sequence, job.token(job.rows.count - 1));
  RowMask all = {last.sinkEnd, first.begin, last.end, 0, 0, nullptr};
  for (int row = 1; p.input.rows.beginsVary() && row < job.rows.count; ++row) {
    all.begin = min(all.begin, p.input.rows.maskOf(job.rows.sequence, job.token(row)).begin);
  }
  if (!all.reaches(segment)) return;

  openTile(tile, p, job);
  const SegmentShape shape = shapeOf(p, job);
  withElement(p.input.cache.element, [&](auto element) {
    attendSegment(tile, sourceOf<decltype(element)>(p, job), segment, shape);
  });
  const int64_t firstToken = p.input.rows.queryStarts[job.rows.sequence];
  for (int i = threadIdx.x; i < shape.rows * shape.headDim; i += blockDim.x) {
    const int r = i / shape.headDim;
    const int d = i % shape.headDim;
    float* const partial = partialOf(p, firstToken + job.token(r), job.head(r), segment);
    partial[kPartialHeader + d] = segmentValue(tile, shape.headDim, r, d);
    if (d > 0) continue;
    partial[0] = tile.max[r];
    partial[1] = tile.sum[r];
  }
}

PERIGEE_KERNEL perigee_merge_segments(const __grid_constant__ PagedAttentionParams p) {
  joinStream();
  const int token = blockIdx.x;
  const int head = blockIdx.y;
  const int dims = p.input.cache.headDim;
  const int sequence = sequenceOf(p.input.rows, token);
  if (sequence == p.input.rows.sequences) return;
  const RowMask mask = p.input.rows.maskOf(sequence, token - p.input.rows.queryStarts[sequence]);
  const int d = threadIdx.x;
  if (d >= dims) return;

  float max = -infinity();
  float sum = 0.0f;
  float value = 0.0f;
  for (int segment = 0; segment < mask.segmentEnd(); ++segment) {
    if (!mask.reaches(segment)) continue;
    const float* const partial = partialOf(p, token, head, segment);
    if (partial[0] == -infinity()) continue;
    const Merge merge(max, partial[0]);
    value = merge.of(value, partial[kPartialHeader + d]);
    sum = merge.of(sum, partial[1]);
    max = merge.max;
  }
  storeElement(p.out, token, head * dims + d, finished(value, sum));
}

}  // namespace perigee
