// Moves keys and values of single tokens inside the cache: of a token tree, the accepted ones come
// to lie behind each other.
//
// Formula  slot moves[n][1] of every layer and head = slot moves[n][0]
// Shapes   starts [G + 1], moves [N, 2]; group g owns moves starts[g] up to starts[g + 1];
//          cache: kv-pool.h, its layer 0
// Work     a block per layer and head, and group; a thread makes all moves of a group in order, for
//          its 16 bytes of keys and values, so that a move may read what one before it wrote
// Bound    latency: a step moves few tokens
// Checked  test/contracts/device-ops/block-moves.ts, moveTokens
#include "kv-pool.h"
#include "params.h"

namespace perigee {

struct MoveTokensParams {
  KvLayer cache;
  const int* starts;
  const int* moves;
};

PERIGEE_KERNEL perigee_move_tokens(const __grid_constant__ MoveTokensParams p) {
  joinStream();
  // Heads of all layers lie behind each other, so a head of any layer is one of layer 0's.
  const int head = blockIdx.x;
  const int chunksOfRow = p.cache.rowBytes / 16;
  const int end = p.starts[blockIdx.y + 1];
  for (int chunk = threadIdx.x; chunk <= 2 * chunksOfRow; chunk += blockDim.x) {
    const bool isScale = chunk == 2 * chunksOfRow;
    if (isScale && p.cache.tokenScales == 0) return;
    const int64_t part = chunk < chunksOfRow ? 0 : p.cache.toValue();
    const int64_t at = part + 16 * (chunk < chunksOfRow ? chunk : chunk - chunksOfRow);
    for (int move = p.starts[blockIdx.y]; move < end; ++move) {
      const int from = p.moves[2 * move];
      const int to = p.moves[2 * move + 1];
      const int fromBlock = from / p.cache.blockTokens, fromOffset = from % p.cache.blockTokens;
      const int toBlock = to / p.cache.blockTokens, toOffset = to % p.cache.blockTokens;
      if (isScale) {
        const Bf16* const read = p.cache.scales(fromBlock, fromOffset, head);
        Bf16* const written = p.cache.scales(toBlock, toOffset, head);
        written[0] = read[0];
        written[p.cache.blockTokens] = read[p.cache.blockTokens];
      } else {
        const uint8_t* const read = p.cache.key(fromBlock, fromOffset, head) + at;
        uint8_t* const written = p.cache.key(toBlock, toOffset, head) + at;
        *reinterpret_cast<uint4*>(written) = *reinterpret_cast<const uint4*>(read);
      }
    }
  }
}

}  // namespace perigee
