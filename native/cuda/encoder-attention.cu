// Bidirectional attention within each sequence (encoder models).
//
// Formula  out[t, h] = softmax(scale * query[t, h] . keys) . values, over the tokens of the
//          sequence that are at most `reach` positions away
// Shapes   qkv [T, 3, H, D] f32; starts [S + 1]; out [T, H, D] activation
// Work     one block per tile of rows and head, which loops over the sequence (attention-segment.h)
// Bound    the f32 units: 4 D operations per head and pair of tokens
// Checked  bench/gpu/smoke.mjs, encoderAttention
#include "attention-segment.h"

namespace perigee {

struct EncoderAttentionParams {
  PackedRows out;  // f32 or bf16
  const float* qkv;
  const int* starts;
  int sequences;
  int heads;
  int headDim;
  float scale;
  int reach;  // positions that a token sees on either side; 0: all
};

namespace {

/// Keys and values of one head, from the sequence's first token on. Rows may be unaligned, so they
/// are read element by element.
struct RowSource {
  using Element = float;
  static constexpr int kChunk = 1;

  struct Site {
    const float* key;
    const float* value;
  };

  const float* keys;
  int64_t stride;
  int toValue;

  __device__ Site at(int position) const {
    const float* const key = keys + position * stride;
    return {key, key + toValue};
  }
};

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kAttentionThreads, 1)
perigee_encoder_attention(const __grid_constant__ EncoderAttentionParams p) {
  joinStream();
  __shared__ AttentionTile tile;
  const AttentionRows rows = {p.starts, nullptr, nullptr, nullptr, p.sequences, 0, 0, 0};
  const TileRows mine = tileRowsOf(rows, 1, blockIdx.x);
  if (mine.count == 0) return;
  const int head = blockIdx.y;
  const int dims = p.headDim;
  const int width = p.heads * dims;
  const int64_t stride = int64_t{3} * width;
  const int firstToken = p.starts[mine.sequence];
  const int tokens = p.starts[mine.sequence + 1] - firstToken;
  const float* const base = p.qkv + firstToken * stride + head * dims;

  // 1. Every row sees the whole sequence, or what is in its reach.
  const int reach = p.reach > 0 ? p.reach : tokens;
  if (threadIdx.x < kTileRows) {
    const int own = mine.first + static_cast<int>(threadIdx.x);
    tile.masks[threadIdx.x] = {0, max(0, own - reach), min(tokens, own + reach + 1),
                               0, 0, nullptr};
    tile.totalMax[threadIdx.x] = -infinity();
    tile.totalSum[threadIdx.x] = 0.0f;
  }
  for (int i = threadIdx.x; i < mine.count * dims; i += blockDim.x) {
    const int r = i / dims;
    const int d = i % dims;
    tile.query[r][d] = base[(mine.first + r) * stride + d] * p.scale;
    tile.total[r][d] = 0.0f;
  }
  __syncthreads();

  // 2. Attention segment by segment.
  const SegmentShape shape = {dims, mine.count, 0, 0.0f};
  const RowSource source = {base + width, stride, width};
  const int begin = max(0, mine.first - reach) / kSegmentTokens;
  const int end = min(tokens, mine.first + mine.count + reach);
  for (int segment = begin; segment * kSegmentTokens < end; ++segment) {
    attendSegment(tile, source, segment, shape);
    mergeSegment(tile, shape);
  }

  // 3. Output rows.
  for (int i = threadIdx.x; i < mine.count * dims; i += blockDim.x) {
    const int r = i / dims;
    const int d = i % dims;
    storeElement(p.out, firstToken + mine.first + r, head * dims + d,
                 finished(tile.total[r][d], tile.totalSum[r]));
  }
}

}  // namespace perigee
