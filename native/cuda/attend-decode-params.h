// What the kernels of decode attention take, and how blocks that share a strand find out who is
// last.
#pragma once

#include "attend-decode-shares.h"

namespace perigee {

struct AttendDecodeParams {
  PackedRows out;  // bf16
  AttentionInput input;
  void* shares;  // DecodeShares: as many as the kernel says
  int strandsOfSequence;

  /// Row `row` of a strand, [D].
  __device__ Bf16* outRow(const Strand& strand, int row) const {
    return reinterpret_cast<Bf16*>(out.memory) + strand.at(input, row);
  }
};

/// Blocks that brought their share of a strand; 0 between launches. Memory of each file, since
/// scratch memory is everybody's; ops of a device never overlap.
__device__ unsigned arrivals[kDecodeBlocksMax];

/// Counts a block's share of strand `place`, stored and fenced by its threads before a barrier;
/// whether it is the last of `shares`, which are then all to be seen. One thread calls it.
__device__ __forceinline__ bool bringShare(int place, int shares) {
  const bool last = atomicAdd(&arrivals[place], 1u) + 1 == static_cast<unsigned>(shares);
  if (last) arrivals[place] = 0;
  __threadfence();
  return last;
}

/// `count` shares of a strand, to the output. All threads of a block call it.
template <int kDims, typename ShareOf>
__device__ __forceinline__ void mergeToOutput(const AttendDecodeParams& p, const Strand& strand,
                                              int count, const ShareOf& shareOf) {
  mergeShares<kDims>(count, strand.rows, shareOf,
                     [&](const MergedQuad& merged, int row, int dim) {
                       if (dim < p.input.cache.headDim) merged.store(p.outRow(strand, row) + dim);
                     });
}

}  // namespace perigee
