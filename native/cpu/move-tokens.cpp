// Moves keys and values of single tokens inside the cache: of a token tree, the accepted ones come
// to lie behind each other.
//
// Formula  slot moves[n][1] of every layer and head = slot moves[n][0]
// Shapes   starts [G + 1], moves [N, 2]; group g owns moves starts[g] up to starts[g + 1]
// Work     one task per layer, which makes all moves in order: groups touch different slots
// Bound    latency: a step moves few tokens
// Checked  test/contracts/device-ops/block-moves.ts, moveTokens
#include "kv-pool.h"
#include "params.h"
#include "thread-pool.h"

namespace perigee {

struct MoveTokensParams {
  ThreadPool* pool;
  KvLayerParams cache;
  const int32_t* starts;
  const int32_t* moves;
  Int groups;
};

namespace {

// A token's place in a block.
struct TokenPlace {
  int block, offset;
};

TokenPlace placeOf(int slot, int blockTokens) { return {slot / blockTokens, slot % blockTokens}; }

template <typename T>
void moveHead(const KvLayer<T>& layer, const TokenPlace& from, const TokenPlace& to, int kvHead) {
  const KvBlockLayout<T>& layout = layer.layout;
  const T* const fromKeys = layer.keys(from.block, kvHead);
  T* const toKeys = layer.keys(to.block, kvHead);
  // Padding to pairs is zero everywhere.
  for (int d = 0; d < layout.headDim; ++d) {
    toKeys[layout.keyIndex(d, to.offset)] = fromKeys[layout.keyIndex(d, from.offset)];
  }
  const T* const fromValues = layer.values(from.block, kvHead);
  T* const toValues = layer.values(to.block, kvHead);
  for (int d = 0; d < layout.valueStride; ++d) {
    toValues[layout.valueIndex(to.offset, d)] = fromValues[layout.valueIndex(from.offset, d)];
  }
  if constexpr (kScaled<T>) {
    if (!layer.tokenScales) return;
    layer.keyScales(to.block, kvHead)[to.offset] = layer.keyScales(from.block, kvHead)[from.offset];
    layer.valueScales(to.block, kvHead)[to.offset] =
        layer.valueScales(from.block, kvHead)[from.offset];
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_move_tokens(const MoveTokensParams* params) {
  const MoveTokensParams& p = *params;
  const KvPool cache = kvPoolOf(p.cache);
  const int32_t count = p.starts[static_cast<int64_t>(p.groups)];
  p.pool->parallelFor(cache.layers, [&](int64_t task, int) {
    KvPool own = cache;
    own.layer = static_cast<int>(task);
    withKvLayer(own, [&](const auto& layer) {
      for (int32_t move = 0; move < count; ++move) {
        const TokenPlace from = placeOf(p.moves[2 * move], cache.blockTokens);
        const TokenPlace to = placeOf(p.moves[2 * move + 1], cache.blockTokens);
        for (int kvHead = 0; kvHead < cache.kvHeads; ++kvHead) moveHead(layer, from, to, kvHead);
      }
    });
  });
}

}  // namespace perigee
