// Parameters of the ropeKvWrite kernels (rope-kv-write.cu, rope-kv-write-pairs.cu).
#pragma once

#include "kv-pool.h"

namespace perigee {

struct RopeKvWriteParams {
  const float* qkv;
  float* query;
  float* sinkQuery;  // null: none
  KvLayer cache;
  const int* positions;
  const int* slots;        // negative: not written to the cache
  const float* rope;       // null: none
  const float* queryNorm;  // [D], null: none
  const float* keyNorm;
  int heads;
  int rotary;
  int sinkPositionMax;
  float epsilon;
};

/// kCount elements that are loaded and stored by one instruction.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) AlignedVector {
  T elements[kCount];
};

}  // namespace perigee
