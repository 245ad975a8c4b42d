// Bidirectional attention within each sequence (encoder models).
//
// Formula  out[t, h] = softmax(scale * query[t, h] . keys) . values, over the tokens of the
//          sequence that are at most `reach` positions away
// Shapes   qkv [T, 3, H, D] f32; starts [S + 1]; out [T, H, D] activation
// Work     one block per tile of rows and head, which loops over the sequence: 64 rows of heads up
//          to 128 whose dimensions are a multiple of 4 (encoder-tile.h), else 8
//          (attention-segment.h)
// Bound    the f32 units: 4 D operations per head and pair of tokens
// Checked  bench/gpu/smoke.mjs, encoderAttention
#include "attention-segment.h"
#include "encoder-tile.h"

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

/// The tiled kernels. `qkv` and its rows are 16-byte aligned.
template <int kDims>
__device__ __forceinline__ void attendEncoderTile(const EncoderAttentionParams& p) {
  using Shape = EncoderShape<kDims>;
  joinStream();
  const AttentionRows rows = {p.starts, nullptr, nullptr, nullptr, p.sequences, 0, 0, 0};
  const TileRows mine = tileRowsOf<kEncoderRows>(rows, 1, blockIdx.x);
  if (mine.count == 0) return;
  const EncoderTile<kDims> tile;
  const int head = blockIdx.y;
  const int width = p.heads * p.headDim;
  const int64_t stride = int64_t{3} * width;
  const int firstToken = p.starts[mine.sequence];
  const int tokens = p.starts[mine.sequence + 1] - firstToken;
  const float* const base = p.qkv + firstToken * stride + head * p.headDim;
  const HeadRows queries = {base, stride, p.headDim};
  const HeadRows keys = {base + width, stride, p.headDim};
  const HeadRows values = {base + 2 * width, stride, p.headDim};
  loadTransposed<kDims, kEncoderRows, Shape::kRowStride>(tile.query, queries, mine.first,
                                                         mine.first + mine.count, p.scale);

  const int reach = p.reach > 0 ? p.reach : tokens;
  const int ownRow = static_cast<int>(threadIdx.x) / kEncoderSide * kRowsEach;
  const int ownKey = static_cast<int>(threadIdx.x) % kEncoderSide * Shape::kKeysEach;
  const int end = min(tokens, mine.first + mine.count + reach);
  EncoderSums<kDims> sums;
  for (int first = max(0, mine.first - reach) / Shape::kKeys * Shape::kKeys; first < end;
       first += Shape::kKeys) {
    loadTransposed<kDims, Shape::kKeys, Shape::kKeyStride>(tile.keys, keys, first, tokens, 1.0f);
    loadRows<kDims, Shape::kKeys>(tile.values, values, first, tokens);
    __syncthreads();
    float scores[kRowsEach][Shape::kKeysEach] = {};
    scoreTile<kDims>(tile, scores);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      const int row = mine.first + ownRow + r;
#pragma unroll
      for (int j = 0; j < Shape::kKeysEach; ++j) {
        const int key = first + ownKey + j;
        const bool seen = key < tokens && key >= row - reach && key <= row + reach;
        if (!seen) scores[r][j] = -infinity();
      }
      weighRow<kDims>(sums, r, scores[r]);
    }
    __syncthreads();  // The weights take the place of the keys.
#pragma unroll
    for (int j = 0; j < Shape::kKeysEach; ++j) {
      float* const weights = tile.weights + (ownKey + j) * Shape::kRowStride + ownRow;
      *reinterpret_cast<float4*>(weights) =
          make_float4(scores[0][j], scores[1][j], scores[2][j], scores[3][j]);
    }
    __syncthreads();
    sumTile<kDims>(tile, sums);
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    if (ownRow + r >= mine.count) continue;
    const int64_t token = firstToken + mine.first + ownRow + r;
#pragma unroll
    for (int d = 0; d < Shape::kDimsEach; ++d) {
      const int dim = sums.dimOf(d);
      if (dim >= p.headDim) continue;
      storeElement(p.out, token, head * p.headDim + dim, finished(sums.total[r][d], sums.sum[r]));
    }
  }
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kEncoderThreads)
perigee_encoder_attention_32(const __grid_constant__ EncoderAttentionParams p) {
  attendEncoderTile<32>(p);
}

PERIGEE_KERNEL __launch_bounds__(kEncoderThreads)
perigee_encoder_attention_64(const __grid_constant__ EncoderAttentionParams p) {
  attendEncoderTile<64>(p);
}

PERIGEE_KERNEL __launch_bounds__(kEncoderThreads)
perigee_encoder_attention_128(const __grid_constant__ EncoderAttentionParams p) {
  attendEncoderTile<128>(p);
}

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
