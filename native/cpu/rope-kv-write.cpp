// Rope and KV cache write: rotates queries and keys of the attention projection and fills the
// cache.
//
// Formula  query, key: RMS norm per head (optional), then rope on the first `rotary` dims: pair (i,
//          i + half) is rotated by the angle of (position, i). Values are copied. Sink queries are
//          the queries rotated by min(position, sinkPositionMax) instead.
// Shapes   qkv [T, H + 2K, D]; query [T, H, D]; rope [positions, rotary]: cosines, then sines;
//          positions, slots [T]; cache: kv-pool.h
// Work     one task per token
// Bound    memory: 4 (H + 2K) D bytes read and about as many written per token. Transposing the
//          keys costs one store per element, about 1 % of a prefill
// Checked  test/contracts/device-ops.ts, ropeKvWrite
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kv-pool.h"
#include "params.h"
#include "rope.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct RopeKvWriteParams {
  ThreadPool* pool;
  const float* qkv;
  float* query;
  Int heads;
  KvLayerParams cache;
  const int32_t* positions;
  const int32_t* slots;    // negative: not written to the cache
  const float* rope;       // null: none
  Int rotary;
  const float* queryNorm;  // [D], null: none
  const float* keyNorm;
  Float epsilon;
  float* sinkQuery;  // null: none
  Int sinkPositionMax;
  Int count;
};

namespace {

void normalizeHead(float* head, const float* weight, int64_t dim, float epsilon) {
  float squares = 0.0f;
  for (int64_t d = 0; d < dim; ++d) squares += head[d] * head[d];
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(dim) + epsilon);
  for (int64_t d = 0; d < dim; ++d) head[d] = head[d] * scale * weight[d];
}

template <typename T>
void writeToken(const RopeKvWriteParams& p, const KvLayer<T>& layer, int kvHeads, int64_t token,
                float* scratch) {
  const int64_t dim = layer.layout.headDim;
  const int64_t heads = p.heads;
  const int64_t position = p.positions[token];
  const auto positioned = [&](float* out, const float* head, const float* norm, int64_t place) {
    std::memcpy(out, head, static_cast<size_t>(dim) * sizeof(float));
    if (norm != nullptr) normalizeHead(out, norm, dim, p.epsilon);
    if (p.rope != nullptr) rotateHead(out, p.rope + place * p.rotary, p.rotary / 2);
  };

  const float* const row = p.qkv + token * (heads + 2 * kvHeads) * dim;
  const int64_t sinkPosition = std::min<int64_t>(position, p.sinkPositionMax);
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t at = (token * heads + head) * dim;
    positioned(p.query + at, row + head * dim, p.queryNorm, position);
    if (p.sinkQuery == nullptr) continue;
    positioned(p.sinkQuery + at, row + head * dim, p.queryNorm, sinkPosition);
  }

  const int slot = p.slots[token];
  if (slot < 0) return;
  const int block = slot / layer.layout.blockTokens;
  const int offset = slot % layer.layout.blockTokens;
  for (int kvHead = 0; kvHead < kvHeads; ++kvHead) {
    const float* const key = row + (heads + kvHead) * dim;
    positioned(scratch, key, p.keyNorm, position);
    layer.write(block, offset, kvHead, scratch, key + kvHeads * dim);
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_rope_kv_write(const RopeKvWriteParams* params) {
  const RopeKvWriteParams& p = *params;
  const KvPool pool = kvPoolOf(p.cache);
  withKvLayer(pool, [&](const auto& layer) {
    const int64_t floats = (p.heads + 2 * pool.kvHeads) * int64_t{pool.headDim};
    parallelRows(*p.pool, p.count, floats, [&](int64_t token, int thread) {
      float* const scratch = p.pool->template scratch<float>(pool.headDim, thread);
      writeToken(p, layer, pool.kvHeads, token, scratch);
    });
  });
}

}  // namespace perigee
