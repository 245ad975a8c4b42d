// Bidirectional attention within each sequence (encoder models).
//
// Formula  out[t, h] = softmax(scale * query[t, h] . keys) . values, over the tokens of the
//          sequence that are at most `reach` positions away
// Shapes   qkv [T, 3, H, D]; starts [S + 1]; out [T, H, D] activation
// Work     Keys and values are copied into a temporary paged cache of one layer (kv-pool.h), one
//          task per block. Then paged attention runs without the causal mask.
// Bound    compute: 4 D flops per head and pair of tokens
// Checked  test/contracts/device-ops.ts, encoderAttention
#include <algorithm>
#include <vector>

#include "paged-attention.h"
#include "params.h"
#include "thread-pool.h"

namespace perigee {

struct EncoderAttentionParams {
  ThreadPool* pool;
  void* out;
  Int outFormat;
  const float* qkv;
  Int heads, headDim;
  const int32_t* starts;
  Int sequences;
  Float scale;
  Int reach;  // positions that a token sees on either side; 0: all
};

namespace {

constexpr int kBlockTokens = kGroupTokens;

// The temporary cache of one call. It is thread-local to the caller, so that its memory is reused.
struct EncoderCache {
  Scratch memory;
  std::vector<int32_t> contextLengths;
  std::vector<int32_t> blockTables;  // [S, blocksPerTable]
  std::vector<int32_t> blockTokens;  // first token of each block
  int64_t blocksPerTable;

  void layOut(const int32_t* starts, int sequences) {
    contextLengths.clear();
    blockTokens.clear();
    blocksPerTable = 0;
    for (int s = 0; s < sequences; ++s) {
      contextLengths.push_back(starts[s + 1] - starts[s]);
      blocksPerTable = std::max<int64_t>(blocksPerTable, blocksOf(s));
    }
    blockTables.assign(static_cast<size_t>(sequences * blocksPerTable), 0);
    for (int s = 0; s < sequences; ++s) {
      for (int64_t i = 0; i < blocksOf(s); ++i) {
        const auto entry = static_cast<size_t>(s * blocksPerTable + i);
        blockTables[entry] = static_cast<int32_t>(blockTokens.size());
        blockTokens.push_back(starts[s] + static_cast<int32_t>(i) * kBlockTokens);
      }
    }
  }

  int64_t blocksOf(int sequence) const {
    const int tokens = contextLengths[static_cast<size_t>(sequence)];
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }
};

// Copies keys and values of all blocks. The last tokens of a block may lie after the sequence's
// end; they hold rows of the next sequence or nothing, and attention never reads them.
void fillBlocks(const EncoderAttentionParams& p, const EncoderCache& cache, const KvPool& pool,
                int64_t tokens) {
  const KvLayer<float> layer(pool);
  const int64_t width = int64_t{pool.kvHeads} * pool.headDim;
  const auto blocks = static_cast<int64_t>(cache.blockTokens.size());
  p.pool->parallelFor(blocks, [&](int64_t block, int) {
    const int64_t first = cache.blockTokens[static_cast<size_t>(block)];
    const int count = static_cast<int>(std::min<int64_t>(kBlockTokens, tokens - first));
    for (int offset = 0; offset < count; ++offset) {
      const float* const keys = p.qkv + (first + offset) * 3 * width + width;
      for (int head = 0; head < pool.kvHeads; ++head) {
        const float* const key = keys + int64_t{head} * pool.headDim;
        layer.write(static_cast<int>(block), offset, head, key, key + width);
      }
    }
  });
}

}  // namespace

PERIGEE_EXPORT void perigee_encoder_attention(const EncoderAttentionParams* params) {
  const EncoderAttentionParams& p = *params;
  static thread_local EncoderCache cache;
  const int sequences = static_cast<int>(p.sequences);
  cache.layOut(p.starts, sequences);

  AttentionJob job{};
  job.pool = p.pool;
  job.out = p.out;
  job.outFormat = formatOf(p.outFormat);
  job.heads = static_cast<int>(p.heads);
  const int headDim = static_cast<int>(p.headDim);
  const int64_t blockFloats =
      int64_t{kBlockTokens} * (headDim + valueStrideOf(headDim)) * job.heads;
  void* const memory =
      cache.memory.get(static_cast<int64_t>(cache.blockTokens.size()) * blockFloats * 4);
  job.cache = {memory, Element::f32, 1, kBlockTokens, job.heads, headDim, 0};
  job.query = p.qkv;
  job.queryStride = int64_t{3} * job.heads * headDim;
  job.sequences = sequences;
  job.queryStarts = p.starts;
  job.contextLengths = cache.contextLengths.data();
  job.blockTables = cache.blockTables.data();
  job.blocksPerTable = cache.blocksPerTable;
  job.scale = p.scale;
  job.everyone = true;
  job.reach = static_cast<int>(p.reach);
  fillBlocks(p, cache, job.cache, p.starts[sequences]);
  attendBlocks(job);
}

}  // namespace perigee
