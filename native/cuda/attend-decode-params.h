// Parameters of the decode attention kernels, and the counter by which the blocks that split a
// query tile (attend-decode-work.h) find the last one to finish.
#pragma once

#include "attend-decode-merge.h"

namespace perigee {

struct AttendDecodeParams {
  PackedRows out;  // bf16
  AttentionInput input;
  void* partials;  // scratch memory for PartialResults; each kernel header states how many
  int queryTilesOfSequence;

  /// Output row `row` of a query tile, [D].
  __device__ Bf16* outRow(const QueryTile& queryTile, int row) const {
    return reinterpret_cast<Bf16*>(out.memory) + queryTile.at(input, row);
  }
};

/// For each split query tile, how many blocks have stored their partial result; 0 between launches.
/// A global variable, because the scratch memory is overwritten by other ops. Each .cu file has its
/// own copy; ops of a device never overlap.
__device__ unsigned arrivals[kDecodeBlocksMax];

/// Counts one finished partial result in counter `index`. Returns true for the last of `blocks`
/// blocks, which may then read all partial results. One thread calls it, after a barrier that
/// follows the fenced stores of its block.
__device__ __forceinline__ bool arrivesLast(int index, int blocks) {
  const bool last = atomicAdd(&arrivals[index], 1u) + 1 == static_cast<unsigned>(blocks);
  if (last) arrivals[index] = 0;
  __threadfence();
  return last;
}

/// Merges `count` partial results of a query tile into the output. All threads of the block call
/// it.
template <int kDims, typename PartialOf>
__device__ __forceinline__ void mergeToOutput(const AttendDecodeParams& p,
                                              const QueryTile& queryTile, int count,
                                              const PartialOf& partialOf) {
  mergePartials<kDims>(count, queryTile.rows, partialOf,
                       [&](const MergedQuad& merged, int row, int dim) {
                         if (dim >= p.input.cache.headDim) return;
                         merged.store(p.outRow(queryTile, row) + dim);
                       });
}

}  // namespace perigee
