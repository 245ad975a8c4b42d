// Parameters of the decode attention kernels, and the counter by which the blocks that split a
// strand (attend-decode-work.h) find the last one to finish.
#pragma once

#include "attend-decode-shares.h"

namespace perigee {

struct AttendDecodeParams {
  PackedRows out;  // bf16
  AttentionInput input;
  void* shares;  // scratch for partial results; each kernel header states how many DecodeShares
  int strandsOfSequence;

  /// Output row `row` of a strand, [D].
  __device__ Bf16* outRow(const Strand& strand, int row) const {
    return reinterpret_cast<Bf16*>(out.memory) + strand.at(input, row);
  }
};

/// For each split strand, how many blocks have stored their partial result; 0 between launches. A
/// global variable, because the scratch memory is overwritten by other ops. Each .cu file has its
/// own copy; ops of a device never overlap.
__device__ unsigned arrivals[kDecodeBlocksMax];

/// Counts one finished partial result of strand `place`. Returns true for the last of `shares`
/// blocks, which may then read all partial results. One thread calls it, after a barrier that
/// follows the fenced stores of its block.
__device__ __forceinline__ bool bringShare(int place, int shares) {
  const bool last = atomicAdd(&arrivals[place], 1u) + 1 == static_cast<unsigned>(shares);
  if (last) arrivals[place] = 0;
  __threadfence();
  return last;
}

/// Merges `count` partial results of a strand into the output. All threads of the block call it.
template <int kDims, typename ShareOf>
__device__ __forceinline__ void mergeToOutput(const AttendDecodeParams& p, const Strand& strand,
                                              int count, const ShareOf& shareOf) {
  mergeShares<kDims>(count, strand.rows, shareOf,
                     [&](const MergedQuad& merged, int row, int dim) {
                       if (dim < p.input.cache.headDim) merged.store(p.outRow(strand, row) + dim);
                     });
}

}  // namespace perigee
