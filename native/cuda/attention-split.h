// What the attention kernels on tensor cores share: their input, and which sequences are whose.
//
// A step mixes prompts and decodes. Sequences with few query rows are bound by the bytes of their
// keys and values, those with many by products; each kind has its own kernel, both run over the
// whole batch, and each passes over what is the other's. Both ask `isDecode`.
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
  int decodeRows;  // most rows of a sequence that is decoded; 0: none is
  float scale;
  float softcap;  // 0: none

  /// Query heads that share a kv head.
  __device__ int group() const { return heads / cache.kvHeads; }
};

/// Whether a sequence of `tokens` query tokens is decoded: the others are prefilled. One token
/// always is, whatever the group.
__device__ __forceinline__ bool isDecode(const AttentionInput& input, int tokens) {
  if (input.decodeRows == 0) return false;
  return tokens <= 1 || tokens * input.group() <= input.decodeRows;
}

}  // namespace perigee
