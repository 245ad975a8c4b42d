// Input of the attention kernels, and the choice between the decode and the prefill kernel for each
// sequence.
//
// A step mixes prompts and decodes. Sequences with few query rows are bound by memory (keys and
// values), those with many rows by compute. Each kind has its own kernel. Both kernels run over the
// whole batch, and each skips the sequences of the other kind; `isDecode` decides.
#pragma once

#include "attention-rows.h"
#include "kv-pool.h"

namespace perigee {

/// Input of an op; `attentionFields` of src/devices/cuda/ops/attention-fields.ts fills it.
struct AttentionInput {
  const float* query;      // [T, H, D]
  const float* sinkQuery;  // [T, H, D], null: none
  KvLayer cache;
  AttentionRows rows;
  const int* blockTables;  // [S, blocksPerTable]
  int64_t blocksPerTable;
  int heads;
  int decodeRows;  // most rows of a decoded sequence; 0: all sequences are prefilled
  float scale;
  float softcap;  // 0: none

  /// Query heads that share a kv head.
  __device__ int group() const { return heads / cache.kvHeads; }
};

/// Whether a sequence of `tokens` query tokens is processed by the decode kernel. One token always
/// is, whatever the group, unless decodeRows is 0.
__device__ __forceinline__ bool isDecode(const AttentionInput& input, int tokens) {
  if (input.decodeRows == 0) return false;
  return tokens <= 1 || tokens * input.group() <= input.decodeRows;
}

}  // namespace perigee
