// Which jobs a block of prefill attention on Hopper does (attend-prefill-wgmma.cu): each takes the
// next one of all when it has room for it, so that blocks end together.
#pragma once

#include "attend-prefill-wgmma-job.h"

namespace perigee {

/// Kv heads whose jobs stand side by side. Fewer than all keep fewer keys and values in use at
/// once.
constexpr int kHeadsTogether = 1 << 16;

/// One warp calls it. A job is a kv head of a tile of 128 rows. Of kHeadsTogether heads, jobs go
/// from the batch's last tile to its first, because behind other tiles of a sequence come those
/// with longer rows: what is left for the end is short. Then come the next such heads.
struct JobQueue {
  const AttendPrefillWgmmaParams& p;
  int lane;
  int jobs;  // in all
  int tiles;

  __device__ JobQueue(const AttendPrefillWgmmaParams& params, int ownLane)
      : p(params), lane(ownLane) {
    tiles = find(0x7fffffff).firstTile;
    jobs = tiles * p.input.cache.kvHeads;
  }

  /// Every block has one without asking.
  __device__ PrefillJob first() const {
    const int number = static_cast<int>(blockIdx.x);
    return number < jobs ? jobAt(number) : next();
  }

  /// One without rows behind the last. Each block asks once too often, so that the last one of all
  /// to ask is known, and leaves the counter as it was.
  __device__ PrefillJob next() const {
    const int blocks = static_cast<int>(gridDim.x);
    int ticket = 0;
    if (lane == 0) {
      ticket = static_cast<int>(atomicAdd(p.arrived, 1u));
      if (ticket == max(jobs, blocks) - 1) *p.arrived = 0;
    }
    const int number = blocks + __shfl_sync(0xffffffffu, ticket, 0);
    return number < jobs ? jobAt(number) : PrefillJob{};
  }

 private:
  struct Found {
    int sequence;
    int firstTile;
    int tokens;
  };

  __device__ int tokensOf(int sequence) const {
    const int* const starts = p.input.rows.queryStarts + sequence;
    const int tokens = starts[1] - starts[0];
    return isDecode(p.input, tokens) ? 0 : tokens;
  }

  /// The sequence that has the tile; how many tiles there are where none has.
  __device__ Found find(int tile) const {
    int before = 0;
    for (int start = 0; start < p.input.rows.sequences; start += kWarp) {
      const int sequence = start + lane;
      const int tokens = sequence < p.input.rows.sequences ? tokensOf(sequence) : 0;
      const int own = (tokens * p.input.group() + kRows - 1) / kRows;
      int end = before + own;
      for (int lanes = 1; lanes < kWarp; lanes *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, end - before, lanes);
        if (lane >= lanes) end += other;
      }
      const int owner = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, end > tile))) - 1;
      if (owner >= 0) {
        return {start + owner, __shfl_sync(0xffffffffu, end - own, owner),
                __shfl_sync(0xffffffffu, tokens, owner)};
      }
      before = __shfl_sync(0xffffffffu, end, kWarp - 1);
    }
    return {0, before, 0};
  }

  __device__ PrefillJob jobAt(int number) const {
    const AttentionRows& rows = p.input.rows;
    const int kvHeads = p.input.cache.kvHeads;
    const int together = min(kHeadsTogether, kvHeads);
    const int firstHead = number / (tiles * together) * together;
    const int heads = min(together, kvHeads - firstHead);
    const int place = number - firstHead * tiles;
    const int tile = tiles - 1 - place / heads;
    const Found found = find(tile);
    PrefillJob job;
    job.sequence = found.sequence;
    job.firstToken = rows.queryStarts[found.sequence];
    job.firstNew = rows.contextLengths[found.sequence] - found.tokens;
    const int group = p.input.group();
    const int first = (tile - found.firstTile) * kRows;
    job.setRows(first, min(kRows, found.tokens * group - first), group);
    job.kvHead = firstHead + place % heads;
    job.begin = beginOf(rows, job.ownPosition(0));
    job.end = job.ownPosition(job.rows - 1) + 1;
    return job;
  }
};

}  // namespace perigee
